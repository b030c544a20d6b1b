#include "worker/measure/parity.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/decoder.h"
#include "worker/engine/numerics.h"
#include "worker/engine/random.h"
#include "worker/measure/parity_checks.h"

namespace ropelab::measure {
namespace {

using SharedModel = std::shared_ptr<const model::LoadedModel>;

const char* NameOf(at::ScalarType dtype) {
  return dtype == at::kFloat ? "float32" : dtype == at::kBFloat16 ? "bfloat16" : "float16";
}

absl::StatusOr<SharedModel> Load(const ParityOptions& options, at::ScalarType dtype, at::Device device) {
  return model::LoadModel(options.directory, dtype, device, 0, [](int64_t, int64_t) {});
}

Prompts DrawPrompts(const formats::ModelConfig& config, const ParityOptions& options) {
  Prompts prompts;
  for (size_t i = 0; i < options.prompt_tokens.size(); ++i) {
    engine::Philox random(options.seed, engine::Purpose::kUniformTokens, i);
    std::vector<int32_t> ids(
        static_cast<size_t>(std::clamp<int64_t>(options.prompt_tokens[i], 1, config.max_positions)));
    for (int32_t& id : ids)
      id = static_cast<int32_t>(random.Integer(static_cast<uint64_t>(config.vocabulary)));
    // Clipping can make two of them equally long; one is enough then.
    const bool known = std::ranges::any_of(prompts, [&](const auto& p) { return p.size() == ids.size(); });
    if (!known) prompts.push_back(std::move(ids));
  }
  return prompts;
}

absl::StatusOr<at::Tensor> AllLogits(const model::LoadedModel& model, const std::vector<int32_t>& ids) {
  engine::ForwardOptions options;
  options.logit_rows.resize(ids.size());
  std::iota(options.logit_rows.begin(), options.logit_rows.end(), 0);
  engine::Observer nobody;
  return engine::Forward(model, ids, options, nobody);
}

absl::StatusOr<at::Tensor> LogitsIn(at::ScalarType dtype, const ParityOptions& options, at::Device device,
                                    const std::vector<int32_t>& ids) {
  ROPELAB_ASSIGN_OR_RETURN(const SharedModel model, Load(options, dtype, device));
  return AllLogits(*model, ids);
}

// How far 16-bit weights and activations are from fp32. The bound is far above rounding and far below what a
// wrong path gives (about 1). A dtype in which a checkpoint does not compute at all is told, not failed: some
// were never meant for fp16.
absl::Status CheckDtypes(const ParityOptions& options, const model::LoadedModel& fp32,
                         const std::vector<int32_t>& ids, FactList& facts) {
  ROPELAB_ASSIGN_OR_RETURN(const at::Tensor wanted, AllLogits(fp32, ids));
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    const std::string name = absl::StrCat(NameOf(dtype), "_logits");
    const absl::StatusOr<at::Tensor> got = LogitsIn(dtype, options, fp32.device, ids);
    if (!got.ok()) {
      facts.Reported(name, {0, absl::StrCat("not computed: ", got.status().message())}, "relative");
      continue;
    }
    facts.Bounded(name, RelativeDistance(*got, wanted, {"row", "token"}, ""), ToleranceOf(dtype).logits,
                  "relative");
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Verification> Verify(const ParityOptions& options, FactList& facts) {
  at::NoGradGuard no_gradients;
  ROPELAB_ASSIGN_OR_RETURN(const at::Device device, model::ParseDevice(options.device));
  ROPELAB_ASSIGN_OR_RETURN(SharedModel model, Load(options, options.dtype, device));
  const Prompts prompts = DrawPrompts(model->config, options);
  CheckRope(*model, facts);
  ROPELAB_RETURN_IF_ERROR(CheckBlocks(*model, prompts, facts));
  ROPELAB_RETURN_IF_ERROR(CheckKvMapping(*model, prompts.front(), facts));
  ROPELAB_RETURN_IF_ERROR(CheckDecoding(*model, prompts.front(), facts));
  if (options.dtype != at::kFloat) {
    model.reset();  // one copy at a time
    ROPELAB_ASSIGN_OR_RETURN(model, Load(options, at::kFloat, device));
  }
  ROPELAB_RETURN_IF_ERROR(CheckExpected(*model, facts));
  ROPELAB_RETURN_IF_ERROR(CheckDtypes(options, *model, prompts.front(), facts));
  v1::Verification verification = facts.Take(absl::StrCat(options.device, " ", NameOf(options.dtype)));
  verification.set_engine_version(engine::kEngineVersion);
  return verification;
}

}  // namespace

absl::StatusOr<v1::Verification> VerifyParity(const ParityOptions& options,
                                              absl::FunctionRef<void(const v1::VerifiedFact&)> found) {
  FactList facts(found);
  try {
    return Verify(options, facts);
  } catch (const c10::Error& error) {
    return absl::InternalError(absl::StrCat(options.directory, ": ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(options.directory, ": ", error.what()));
  }
}

}  // namespace ropelab::measure
