#include "worker/train/export_model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/formats/safetensors_writer.h"
#include "worker/train/bpe_trainer.h"

namespace ropelab::train {
namespace {

struct WeightDtype {
  at::ScalarType type;
  const char* name;  // as safetensors spells it
};

WeightDtype DtypeOf(const Recipe& recipe) {
  if (recipe.dtype == "float16") return {at::kHalf, "F16"};
  if (recipe.dtype == "bfloat16") return {at::kBFloat16, "BF16"};
  return {at::kFloat, "F32"};
}

}  // namespace

std::string ConfigJson(const Recipe& recipe, int64_t vocabulary) {
  const ModelShape& shape = recipe.shape;
  const nlohmann::ordered_json config = {
      {"architectures", {"LlamaForCausalLM"}},
      {"model_type", "llama"},
      {"hidden_size", shape.hidden},
      {"intermediate_size", shape.intermediate},
      {"num_hidden_layers", shape.layers},
      {"num_attention_heads", shape.heads},
      {"num_key_value_heads", shape.kv_heads},
      {"head_dim", shape.head_dim},
      {"vocab_size", vocabulary},
      {"max_position_embeddings", shape.max_positions},
      {"rms_norm_eps", shape.norm_eps},
      {"rope_theta", shape.rope_theta},
      {"rope_scaling", nullptr},
      {"hidden_act", "silu"},
      {"attention_bias", false},
      {"mlp_bias", false},
      {"tie_word_embeddings", true},
      {"torch_dtype", recipe.dtype},
      {"bos_token_id", kBeginId},
      {"eos_token_id", kEndId},
  };
  return config.dump(2) + "\n";
}

absl::Status ExportModel(const std::string& directory, const Recipe& recipe, const TrainableModel& model,
                         int64_t vocabulary, const std::string& tokenizer_json) {
  const WeightDtype dtype = DtypeOf(recipe);
  std::vector<formats::NamedTensor> tensors;
  for (const auto& [name, parameter] : model.Parameters()) {
    const at::Tensor weight = parameter.detach().to(dtype.type).contiguous();
    if (!at::isfinite(weight).all().item<bool>()) {
      return absl::FailedPreconditionError(
          absl::StrCat(name, ": a weight is not finite in ", recipe.dtype,
                       "; lower adamw.rate, or write another dtype into the recipe"));
    }
    formats::NamedTensor tensor{name, dtype.name, weight.sizes().vec(), ""};
    tensor.bytes.assign(static_cast<const char*>(weight.data_ptr()), weight.nbytes());
    tensors.push_back(std::move(tensor));
  }
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });

  const std::filesystem::path folder = directory;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat(directory, ": cannot be made: ", error.message()));
  }
  ROPELAB_RETURN_IF_ERROR(
      formats::WriteFileAtomically((folder / "config.json").string(), ConfigJson(recipe, vocabulary)));
  ROPELAB_RETURN_IF_ERROR(formats::WriteFileAtomically((folder / "tokenizer.json").string(), tokenizer_json));
  return formats::WriteSafetensors((folder / "model.safetensors").string(), tensors);
}

}  // namespace ropelab::train
