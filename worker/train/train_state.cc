#include "worker/train/train_state.h"

#include <ATen/ATen.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/formats/checkpoint.h"
#include "worker/formats/safetensors_writer.h"

namespace ropelab::train {
namespace {

constexpr char kProgress[] = "state.numbers";  // step, stage, tokens, threads
constexpr char kCurve[] = "state.curve";
constexpr char kCheckpoints[] = "state.checkpoints";
constexpr char kRecipe[] = "state.recipe";
constexpr char kNumerics[] = "state.numerics";
constexpr char kTokenizer[] = "state.tokenizer";
using StateNumbers = std::array<int64_t, 4>;

// Every tensor of the state that is computed with, by name.
std::vector<std::pair<std::string, at::Tensor>> Tensors(const TrainableModel& model, const AdamW& optimizer) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  const auto& parameters = model.Parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    tensors.emplace_back("weight." + parameters[i].first, parameters[i].second.detach());
    tensors.emplace_back("first." + parameters[i].first, optimizer.first()[i]);
    tensors.emplace_back("second." + parameters[i].first, optimizer.second()[i]);
  }
  return tensors;
}

formats::NamedTensor Text(const char* name, const std::string& text) {
  return {name, "U8", {static_cast<int64_t>(text.size())}, text};
}

std::filesystem::path StateFile(const OutputFolder& folder) {
  return folder.state() / "model.safetensors";
}

// An open state and what to say of it.
class SavedState {
 public:
  SavedState(const formats::Checkpoint& file, const OutputFolder& folder)
      : file_(file), path_(StateFile(folder).string()), begin_again_(folder.BeginAgain()) {}

  absl::StatusOr<std::string_view> Bytes(const std::string& name, std::string_view dtype,
                                         std::optional<size_t> size) const {
    const formats::TensorEntry* entry = file_.Find(name);
    if (entry == nullptr || entry->dtype != dtype || (size.has_value() && entry->bytes.size() != *size)) {
      return absl::FailedPreconditionError(absl::StrCat(
          path_, ": ", name, " is not there as this version keeps it for this recipe, ",
          size.has_value() ? absl::StrCat(*size, " bytes of ") : "", std::string(dtype), "; ", begin_again_));
    }
    return entry->bytes;
  }

  absl::Status Refuse(const std::string& difference, const std::string& remedy) const {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, ": was made with ", difference, "; ", remedy, begin_again_));
  }

  absl::Status CheckText(const char* name, const char* what, const std::string& now,
                         const std::string& remedy) const {
    ROPELAB_ASSIGN_OR_RETURN(const std::string_view then, Bytes(name, "U8", std::nullopt));
    if (then == now) return absl::OkStatus();
    return Refuse(absl::StrCat(what, " ", std::string(then), ", and this run has ", now), remedy);
  }

  absl::Status CheckRange(const char* what, int64_t value, int64_t most) const {
    if (value >= 0 && value <= most) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(path_, ": is damaged: its ", what, " is ", value,
                                            ", and this recipe's is from 0 to ", most, "; ", begin_again_));
  }

 private:
  const formats::Checkpoint& file_;
  const std::string path_, begin_again_;
};

}  // namespace

absl::Status SaveState(const OutputFolder& folder, const Recipe& recipe, const TrainingOrigin& origin,
                       const TrainState& state, const TrainableModel& model, const AdamW& optimizer) {
  const StateNumbers numbers = {state.step, state.stage, state.tokens, origin.threads};
  std::vector<formats::NamedTensor> file;
  file.push_back({kProgress,
                  "I64",
                  {static_cast<int64_t>(numbers.size())},
                  std::string(reinterpret_cast<const char*>(numbers.data()), sizeof numbers)});
  file.push_back(Text(kCurve, state.curve));
  file.push_back(Text(kCheckpoints, state.checkpoints));
  file.push_back(Text(kRecipe, recipe.text));
  file.push_back(Text(kNumerics, origin.numerics));
  file.push_back(Text(kTokenizer, origin.tokenizer));
  for (const auto& [name, tensor] : Tensors(model, optimizer)) {
    formats::NamedTensor entry{name, "F32", tensor.sizes().vec(), ""};
    entry.bytes.assign(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
    file.push_back(std::move(entry));
  }
  return formats::WriteSafetensors(StateFile(folder).string(), file);
}

absl::StatusOr<TrainState> LoadState(const OutputFolder& folder, const Recipe& recipe,
                                     const TrainingOrigin& origin, const TrainableModel& model,
                                     const AdamW& optimizer) {
  const std::string path = StateFile(folder).string();
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  const auto file = formats::Checkpoint::Open(folder.state().string());
  if (absl::IsInvalidArgument(file.status())) {
    return absl::DataLossError(
        absl::StrCat(path, ": is damaged (", file.status().message(), "); ", folder.BeginAgain()));
  }
  ROPELAB_RETURN_IF_ERROR(file.status());
  const SavedState saved(*file, folder);
  ROPELAB_ASSIGN_OR_RETURN(const std::string_view made_with, saved.Bytes(kRecipe, "U8", std::nullopt));
  if (made_with != recipe.text) {
    return saved.Refuse("another recipe",
                        absl::StrCat("train with that one (the file holds it under ", kRecipe, "), "));
  }
  StateNumbers numbers = {};
  ROPELAB_ASSIGN_OR_RETURN(const std::string_view bytes, saved.Bytes(kProgress, "I64", sizeof numbers));
  std::memcpy(numbers.data(), bytes.data(), sizeof numbers);
  const auto [step, stage, tokens, threads] = numbers;
  if (threads != origin.threads) {
    return saved.Refuse(absl::StrCat("--threads ", threads, ", and this run has --threads ", origin.threads),
                        absl::StrCat("give --threads ", threads, ", "));
  }
  ROPELAB_RETURN_IF_ERROR(
      saved.CheckText(kNumerics, "the numerics class", origin.numerics,
                      "go on with the libraries and on the kind of machine it began with, "));
  ROPELAB_RETURN_IF_ERROR(saved.CheckText(kTokenizer, "a tokenizer.json with the SHA-256", origin.tokenizer,
                                          "go on with the version of ropelab-train it began with, "));
  ROPELAB_RETURN_IF_ERROR(saved.CheckRange("step", step, recipe.steps));
  ROPELAB_RETURN_IF_ERROR(
      saved.CheckRange("stage", stage, static_cast<int64_t>(recipe.curriculum.lengths.size()) - 1));
  ROPELAB_RETURN_IF_ERROR(saved.CheckRange("count of tokens", tokens, std::numeric_limits<int64_t>::max()));
  ROPELAB_ASSIGN_OR_RETURN(const std::string_view curve, saved.Bytes(kCurve, "U8", std::nullopt));
  ROPELAB_ASSIGN_OR_RETURN(const std::string_view checkpoints, saved.Bytes(kCheckpoints, "U8", std::nullopt));
  for (const auto& [name, tensor] : Tensors(model, optimizer)) {
    ROPELAB_ASSIGN_OR_RETURN(const std::string_view values, saved.Bytes(name, "F32", tensor.nbytes()));
    std::memcpy(tensor.data_ptr(), values.data(), values.size());
  }
  return TrainState{step, stage, tokens, std::string(curve), std::string(checkpoints)};
}

}  // namespace ropelab::train
