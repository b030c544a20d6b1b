// Sampling: token ids drawn from the model from BOS at a temperature.
#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/decode_session.h"
#include "worker/engine/decoder.h"
#include "worker/engine/draw.h"
#include "worker/engine/random.h"
#include "worker/measure/kinds.h"
#include "worker/measure/prompts.h"

namespace ropelab::measure {
namespace {

static_assert(kBlockSamples == engine::kDecodeRows, "sample s of a block is always row s mod 8");

constexpr int64_t kStepsPerProgress = 16;

absl::Status Check(const v1::Sampling& request, const formats::ModelConfig& config) {
  ROPELAB_RETURN_IF_ERROR(CheckSamples(request.samples()));
  if (request.tokens() < 1 || request.tokens() > config.max_positions) {
    return absl::InvalidArgumentError(absl::StrCat("samples of ", request.tokens(),
                                                   " tokens: the model takes 1 to ", config.max_positions));
  }
  if (request.vocabulary() < 1 || request.vocabulary() > config.vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat("sampling over ", request.vocabulary(),
                                                   " ids: the model's embedding has ", config.vocabulary,
                                                   " rows"));
  }
  if (!std::isfinite(request.temperature()) || request.temperature() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the temperature is ", request.temperature(), "; it must be 0 or a positive number"));
  }
  const std::array<int32_t, 1> bos = {request.bos_token_id()};
  return engine::CheckPrompt(bos, config);
}

// The rows of a block, each with its own stream.
class Block {
 public:
  explicit Block(const v1::Sampling& request) : request_(request) {
    for (int64_t row = 0; row < request.samples().count(); ++row) {
      ids_.push_back({request.bos_token_id()});
      streams_.emplace_back(request.seed(), engine::Purpose::kSampling,
                            static_cast<uint64_t>(request.samples().first_sample() + row));
    }
  }

  // What to feed next; rows without a sample take BOS again.
  std::array<int32_t, engine::kDecodeRows> Last() const {
    std::array<int32_t, engine::kDecodeRows> last;
    last.fill(request_.bos_token_id());
    for (size_t row = 0; row < ids_.size(); ++row) last[row] = ids_[row].back();
    return last;
  }

  // logits [kDecodeRows, V] on the CPU, fp32.
  absl::Status Draw(const at::Tensor& logits) {
    for (size_t row = 0; row < ids_.size(); ++row) {
      const std::span<const float> of_row(logits.data_ptr<float>() + row * logits.size(1),
                                          static_cast<size_t>(request_.vocabulary()));
      for (float logit : of_row) {
        if (!std::isfinite(logit)) {
          return absl::FailedPreconditionError(
              absl::StrCat("an output logit at position ", ids_[row].size() - 1,
                           " is NaN or infinite; the checkpoint does not compute in this dtype (FLOAT16 "
                           "reaches least far)"));
        }
      }
      ids_[row].push_back(request_.temperature() == 0 ? engine::LargestLogit(of_row)
                                                      : engine::DrawToken(of_row, request_.temperature(),
                                                                          streams_[row].Double(), weights_));
    }
    return absl::OkStatus();
  }

  const std::vector<TokenIds>& ids() const { return ids_; }

 private:
  const v1::Sampling& request_;
  std::vector<TokenIds> ids_;
  std::vector<engine::Philox> streams_;
  std::vector<double> weights_;
};

}  // namespace

absl::StatusOr<Outcome> MeasureSampling(const v1::Sampling& request, const model::LoadedModel& model,
                                        Recorder& recorder) {
  ROPELAB_RETURN_IF_ERROR(Check(request, model.config));
  Block block(request);
  engine::DecodeSession session(model, request.tokens());
  for (int64_t position = 1; position < request.tokens(); ++position) {
    ROPELAB_RETURN_IF_ERROR(block.Draw(session.Step(block.Last()).cpu().contiguous()));
    if (position % kStepsPerProgress == 0) {
      ROPELAB_RETURN_IF_ERROR(
          recorder.Progress(static_cast<double>(position), static_cast<double>(request.tokens() - 1)));
    }
  }
  for (size_t row = 0; row < block.ids().size(); ++row) {
    v1::Reading reading;
    reading.mutable_sampled_tokens()->set_sample(request.samples().first_sample() +
                                                 static_cast<int64_t>(row));
    const TokenIds& ids = block.ids()[row];
    reading.mutable_sampled_tokens()->mutable_ids()->mutable_ids()->Add(ids.begin(), ids.end());
    ROPELAB_RETURN_IF_ERROR(recorder.Emit(std::move(reading), {}));
  }
  return Outcome{FedIdsDigest(block.ids())};
}

int64_t SamplingBytes(const v1::Sampling& request, const model::LoadedModel& model) {
  return engine::DecodeSession::Bytes(model,
                                      std::clamp<int64_t>(request.tokens(), 1, model.config.max_positions));
}

}  // namespace ropelab::measure
