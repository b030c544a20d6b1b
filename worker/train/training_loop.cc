#include "worker/train/training_loop.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <filesystem>
#include <iterator>
#include <memory>
#include <new>
#include <ratio>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/clock.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "spdlog/spdlog.h"
#include "worker/formats/safetensors_writer.h"
#include "worker/train/adamw.h"
#include "worker/train/bpe_trainer.h"
#include "worker/train/export_model.h"
#include "worker/train/needle_evaluation.h"
#include "worker/train/needle_room.h"
#include "worker/train/output_folder.h"
#include "worker/train/sample_batch.h"
#include "worker/train/step_draws.h"
#include "worker/train/streams.h"
#include "worker/train/train_state.h"
#include "worker/train/trainable_model.h"
#include "worker/train/training_samples.h"

namespace ropelab::train {
namespace {

constexpr char kCurveHead[] = "step,tokens,length,rate,text_loss,answer_loss,gradient_norm,accuracy\n";
constexpr char kCheckpointsHead[] = "name,step,tokens,length\n";
// Samples per length and depth of evaluation.csv, apart from those that moved the curriculum on.
constexpr int64_t kFinalSamples = 40;
constexpr int64_t kFirstFinalSample = int64_t{1} << 20;

// What the finished tokenizer is: the same for every run of a recipe.
struct TrainedTokenizer {
  std::string json;
  std::shared_ptr<const formats::Tokenizer> tokenizer;
};

absl::StatusOr<TrainedTokenizer> TrainTokenizer(const Recipe& recipe) {
  TrainedTokenizer trained;
  ROPELAB_ASSIGN_OR_RETURN(const WordCounts counts,
                           CountTrainingWords(recipe.seed, recipe.tokenizer_sentences, recipe.mix.generated));
  trained.json = TokenizerJson(TrainMerges(counts, recipe.vocabulary));
  ROPELAB_ASSIGN_OR_RETURN(trained.tokenizer, formats::Tokenizer::Parse(trained.json, "tokenizer.json"));
  return trained;
}

at::ScalarType ProductsOf(const Recipe& recipe) {
  return recipe.products == "float32" ? at::kFloat : at::kBFloat16;
}

std::vector<at::Tensor> TensorsOf(const TrainableModel& model) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : model.Parameters()) tensors.push_back(tensor);
  return tensors;
}

at::Tensor MeanOver(const at::Tensor& values, const at::Tensor& where) {
  return (values * where).sum() / where.sum().clamp_min(1);
}

class Training {
 public:
  Training(const Recipe& recipe, const TrainingOptions& options, OutputFolder folder,
           TrainedTokenizer tokenizer)
      : recipe_(recipe),
        folder_(std::move(folder)),
        last_step_(std::min(options.stop_after.value_or(recipe.steps), recipe.steps)),
        tokenizer_(std::move(tokenizer)),
        origin_{options.threads, options.numerics, Sha256Hex(tokenizer_.json)},
        text_(tokenizer_.tokenizer, recipe.seed, recipe.mix.generated),
        model_(recipe.shape, tokenizer_.tokenizer->vocabulary(), recipe.seed, ProductsOf(recipe)),
        optimizer_(recipe.adamw, TensorsOf(model_)),
        free_(at::zeros({recipe.shape.layers, recipe.shape.heads}, at::kFloat)) {
    for (const auto& [layer, head] : recipe.heads.free) free_[layer][head] = 1;
    state_.curve = kCurveHead;
    state_.checkpoints = kCheckpointsHead;
  }

  // Returns the steps taken in all.
  absl::StatusOr<int64_t> Run(absl::FunctionRef<void(const TrainingProgress&)> progress) {
    ROPELAB_RETURN_IF_ERROR(CheckNeedlesFit(text_, recipe_));
    ROPELAB_RETURN_IF_ERROR(Resume());
    const bool ended = state_.step == recipe_.steps;
    if (state_.step == 0) ROPELAB_RETURN_IF_ERROR(WriteCheckpoint());
    marked_ = Clock::Real().Monotonic();
    while (state_.step < last_step_) {
      ROPELAB_RETURN_IF_ERROR(Step());
      if (state_.step % recipe_.curriculum.every == 0 || state_.step == recipe_.steps) {
        ROPELAB_RETURN_IF_ERROR(Evaluate(progress));
      }
    }
    if (state_.step == recipe_.steps && !ended) ROPELAB_RETURN_IF_ERROR(Finish());
    return state_.step;
  }

 private:
  int64_t PresentLength() const { return recipe_.curriculum.lengths[static_cast<size_t>(state_.stage)]; }

  // From the state where there is one. Else it saves one before anything else is written: what stands in the
  // folder later is then known to be this training's.
  absl::Status Resume() {
    auto resumed = LoadState(folder_, recipe_, origin_, model_, optimizer_);
    if (absl::IsNotFound(resumed.status())) return Save();
    ROPELAB_RETURN_IF_ERROR(resumed.status());
    state_ = *std::move(resumed);
    if (state_.step == recipe_.steps) {
      spdlog::info("{} is already finished", folder_.model().string());
    } else {
      spdlog::info("goes on from step {}", state_.step);
    }
    return absl::OkStatus();
  }

  absl::Status Save() const { return SaveState(folder_, recipe_, origin_, state_, model_, optimizer_); }

  absl::StatusOr<SampleBatch> Draw() {
    const int64_t length = StepLength(recipe_, state_.step, state_.stage);
    const int64_t count = std::max<int64_t>(1, recipe_.tokens_per_step / length);
    std::vector<TrainingSample> samples;
    for (int64_t i = 0; i < count; ++i) {
      ROPELAB_ASSIGN_OR_RETURN(TrainingSample sample,
                               DrawSample(text_, recipe_, length + 1, static_cast<uint64_t>(state_.step),
                                          static_cast<uint64_t>(i)));
      samples.push_back(std::move(sample));
    }
    state_.tokens += count * length;
    return MakeBatch(samples);
  }

  absl::Status Step() {
    ROPELAB_ASSIGN_OR_RETURN(const SampleBatch batch, Draw());
    const double press = PressureAt(recipe_, state_.step);
    TrainableModel::Pressure pressure{HeadScale(recipe_, state_.step, batch.ids.size(0)), nullptr, free_};
    Gaze gaze;
    if (recipe_.heads.gaze > 0 && press > 0) {
      Philox stream = MakeStream(recipe_.seed, Stream::kGaze, static_cast<uint64_t>(state_.step));
      gaze = DrawGaze(batch, stream);
      pressure.gaze = &gaze;
    }
    const TrainableModel::Result result = model_.Run(batch.ids, pressure);
    const at::Tensor losses =
        at::log_softmax(result.logits, -1).gather(-1, batch.targets.unsqueeze(-1)).squeeze(-1).neg();
    const at::Tensor text = MeanOver(losses, batch.text);
    const at::Tensor answers = MeanOver(losses, batch.answers);
    at::Tensor loss = text + recipe_.answer_weight * answers;
    if (result.stray.defined()) loss = loss + recipe_.heads.gaze * press * result.stray;
    if (!std::isfinite(loss.item<double>())) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the loss of step ", state_.step + 1, " is not finite; lower adamw.rate, ", recipe_.adamw.rate));
    }
    loss.backward();
    rate_ = LearningRate(recipe_.adamw, state_.step, recipe_.steps);
    norm_ = optimizer_.Step(state_.step, rate_);
    if (!std::isfinite(norm_)) {
      return absl::FailedPreconditionError(absl::StrCat("the gradient of step ", state_.step + 1,
                                                        " is not finite; lower adamw.rate, ",
                                                        recipe_.adamw.rate));
    }
    text_loss_ += text.item<double>();
    answer_loss_ += answers.item<double>();
    ++since_;
    ++state_.step;
    return absl::OkStatus();
  }

  absl::StatusOr<double> Accuracy() const {
    const int64_t samples = recipe_.curriculum.samples;
    ROPELAB_ASSIGN_OR_RETURN(const int64_t right,
                             RightAnswers(model_, text_, recipe_, PresentLength(), 0, samples));
    return static_cast<double>(right) / static_cast<double>(samples);
  }

  absl::Status Evaluate(absl::FunctionRef<void(const TrainingProgress&)> progress) {
    const auto steps = static_cast<double>(since_);
    const std::chrono::nanoseconds now = Clock::Real().Monotonic();
    const double minutes = std::chrono::duration<double, std::ratio<60>>(now - marked_).count();
    marked_ = now;
    const auto longest = static_cast<int64_t>(recipe_.curriculum.lengths.size()) - 1;
    for (bool moved = true; moved;) {
      ROPELAB_ASSIGN_OR_RETURN(const double accuracy, Accuracy());
      absl::StrAppend(
          &state_.curve,
          absl::StrFormat("%d,%d,%d,%.6g,%.4f,%.4f,%.4f,%.4f\n", state_.step, state_.tokens, PresentLength(),
                          rate_, text_loss_ / steps, answer_loss_ / steps, norm_, accuracy));
      progress({state_.step, PresentLength(), text_loss_ / steps, answer_loss_ / steps, accuracy,
                steps / minutes});
      moved = accuracy >= recipe_.curriculum.pass && state_.stage < longest;
      if (moved) ++state_.stage;
    }
    text_loss_ = answer_loss_ = 0;
    since_ = 0;
    ROPELAB_RETURN_IF_ERROR(WriteModelFile("curve.csv", state_.curve));
    ROPELAB_RETURN_IF_ERROR(WriteCheckpoint());
    if (state_.step == recipe_.steps) return absl::OkStatus();  // Finish saves it
    return Save();
  }

  absl::Status WriteModelFile(const char* name, const std::string& text) const {
    return formats::WriteFileAtomically((folder_.model() / name).string(), text);
  }

  absl::Status Export(const std::filesystem::path& folder) const {
    ROPELAB_RETURN_IF_ERROR(MakeFolder(folder));
    return ExportModel(folder.string(), recipe_, model_, tokenizer_.tokenizer->vocabulary(), tokenizer_.json);
  }

  // Where the recipe asks for one at this step.
  absl::Status WriteCheckpoint() {
    const auto& steps = recipe_.checkpoints;
    if (!std::binary_search(steps.begin(), steps.end(), state_.step)) return absl::OkStatus();
    const std::filesystem::path folder = folder_.checkpoints();
    const std::string name = absl::StrFormat("%s-%04d", recipe_.name, state_.step);
    ROPELAB_RETURN_IF_ERROR(Export(folder / name));
    absl::StrAppend(&state_.checkpoints, name, ",", state_.step, ",", state_.tokens, ",", PresentLength(),
                    "\n");
    return formats::WriteFileAtomically((folder / "checkpoints.csv").string(), state_.checkpoints);
  }

  absl::Status Finish() {
    spdlog::info("evaluating {} needles of each length at each of {} depths", kFinalSamples,
                 std::size(kDepths));
    std::string table = "length,depth,samples,right\n";
    for (const int64_t length : recipe_.curriculum.lengths) {
      for (size_t i = 0; i < std::size(kDepths); ++i) {
        const int64_t first = kFirstFinalSample + static_cast<int64_t>(i) * kFinalSamples;
        ROPELAB_ASSIGN_OR_RETURN(const int64_t right, RightAnswers(model_, text_, recipe_, length, first,
                                                                   kFinalSamples, kDepths[i]));
        absl::StrAppend(&table, length, ",", kDepths[i], ",", kFinalSamples, ",", right, "\n");
      }
    }
    ROPELAB_RETURN_IF_ERROR(WriteModelFile("evaluation.csv", table));
    ROPELAB_RETURN_IF_ERROR(Export(folder_.model()));
    return Save();
  }

  const Recipe recipe_;
  const OutputFolder folder_;
  const int64_t last_step_;
  const TrainedTokenizer tokenizer_;
  const TrainingOrigin origin_;
  const SampleText text_;
  TrainableModel model_;
  AdamW optimizer_;
  const at::Tensor free_;  // [layers, heads]: 1 for heads that may look at needles
  TrainState state_;
  double rate_ = 0, norm_ = 0;              // of the last step
  double text_loss_ = 0, answer_loss_ = 0;  // sums since the last evaluation
  int64_t since_ = 0;
  std::chrono::nanoseconds marked_{0};  // when the first of those steps began
};

absl::StatusOr<int64_t> ClaimAndTrain(const Recipe& recipe, const TrainingOptions& options,
                                      absl::FunctionRef<void(const TrainingProgress&)> progress) {
  ROPELAB_ASSIGN_OR_RETURN(OutputFolder folder, OutputFolder::Claim(options.out, recipe.name));
  ROPELAB_ASSIGN_OR_RETURN(TrainedTokenizer tokenizer, TrainTokenizer(recipe));
  spdlog::info("tokenizer: {} tokens", tokenizer.tokenizer->vocabulary());
  return Training(recipe, options, std::move(folder), std::move(tokenizer)).Run(progress);
}

absl::Status OutOfMemory(const Recipe& recipe) {
  const ModelShape& shape = recipe.shape;
  return absl::ResourceExhaustedError(absl::StrCat(
      "the memory ran out for steps of ", recipe.tokens_per_step, " tokens_per_step and prompts of up to ",
      recipe.curriculum.lengths.back(), " tokens through a shape of ", shape.layers, " layers, ", shape.heads,
      " heads of head_dim ", shape.head_dim, ", hidden ", shape.hidden, ", intermediate ", shape.intermediate,
      " and vocabulary ", recipe.vocabulary, "; lower one of these in the recipe"));
}

}  // namespace

absl::StatusOr<int64_t> Train(const Recipe& recipe, const TrainingOptions& options,
                              absl::FunctionRef<void(const TrainingProgress&)> progress) {
  try {
    return ClaimAndTrain(recipe, options, progress);
  } catch (const c10::Error& error) {
    const std::string_view what = error.what_without_backtrace();
    if (what.find("allocate memory") != std::string_view::npos) return OutOfMemory(recipe);
    return absl::InternalError(absl::StrCat("libtorch says: ", std::string(what)));
  } catch (const std::bad_alloc&) {
    return OutOfMemory(recipe);
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("training failed: ", error.what()));
  }
}

}  // namespace ropelab::train
