#include "worker/formats/families.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "worker/formats/family_parts.h"
#include "worker/formats/rope_fields.h"
#include "worker/formats/window_fields.h"

namespace ropelab::formats {
namespace {

constexpr double kMaxSoftCap = 1e6;

void ReadLlama(ConfigFields& fields, ModelConfig& config) {
  ReadCommon(fields, config, {.max_positions = 2048, .bos = {1}, .eos = {2}});
  config.activation = ReadActivation(fields, "hidden_act", Activation::kSilu);
  ReadAttentionBias(fields, config);
  config.mlp_bias = fields.Boolean("mlp_bias", false);
  FillFixedWindows(fields, config, 0, false);
  ReadRope(fields, config);
}

void ReadMistral(ConfigFields& fields, ModelConfig& config) {
  ReadCommon(fields, config, {.max_positions = 131072, .bos = {1}, .eos = {2}});
  config.activation = ReadActivation(fields, "hidden_act", Activation::kSilu);
  FillFixedWindows(fields, config, ReadWindow(fields, 4096), true);
  ReadRope(fields, config);
}

// qwen2 and qwen3 name a window that counts only when it is switched on, and then from a layer onwards.
void FillQwenWindows(ConfigFields& fields, ModelConfig& config) {
  const int64_t window = ReadWindow(fields, 4096);
  const bool on = fields.Boolean("use_sliding_window", false);
  const int64_t first = fields.Integer("max_window_layers", 0, int64_t{1} << 30, 28);
  FillWindows(fields, config, on ? window : 0, [&](int64_t layer) { return layer >= first; });
}

void ReadQwen2(ConfigFields& fields, ModelConfig& config) {
  ReadCommon(fields, config, {.max_positions = 32768, .bos = {}, .eos = {}});
  config.activation = ReadActivation(fields, "hidden_act", Activation::kSilu);
  config.qkv_bias = true;  // no field says so
  FillQwenWindows(fields, config);
  ReadRope(fields, config);
}

void ReadQwen3(ConfigFields& fields, ModelConfig& config) {
  ReadCommon(fields, config, {.max_positions = 32768, .head_dim = 128, .bos = {}, .eos = {}});
  config.activation = ReadActivation(fields, "hidden_act", Activation::kSilu);
  ReadAttentionBias(fields, config);
  config.query_key_norm = QueryKeyNorm::kPerHead;
  FillQwenWindows(fields, config);
  ReadRope(fields, config);
}

// What gemma and gemma2 share.
void ReadGemmaParts(ConfigFields& fields, ModelConfig& config) {
  ReadCommon(fields, config,
             {.max_positions = 8192, .head_dim = 256, .tied_embeddings = true, .bos = {2}, .eos = {1}});
  ReadAttentionBias(fields, config);
  config.norm_adds_one = true;
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
}

// Hugging Face read hidden_activation, whose null is the tanh form, and later hidden_act, which older files
// have wrong ("gelu"). Only a file of the later kind can mean something else by hidden_act.
void ReadGemmaActivation(ConfigFields& fields, ModelConfig& config) {
  config.activation = ReadActivation(fields, "hidden_activation", Activation::kGeluTanh);
  const std::string later = fields.Text("hidden_act", "gelu");
  if (!fields.Given("hidden_activation") && later != "gelu" && later != "gelu_pytorch_tanh") {
    fields.Refuse("hidden_act", absl::StrCat("\"", later, "\""),
                  "older readers pass it over in this family; name hidden_activation");
  }
}

void ReadGemma(ConfigFields& fields, ModelConfig& config) {
  ReadGemmaParts(fields, config);
  ReadGemmaActivation(fields, config);
  FillFixedWindows(fields, config, 0, false);
  ReadRope(fields, config);
}

// Null switches a soft cap off; an absent one has the family's value.
double ReadSoftCap(ConfigFields& fields, const char* name, double missing) {
  if (!fields.Has(name)) return fields.Given(name) ? 0.0 : missing;
  return fields.Number(name, 0.0, kMaxSoftCap, missing);
}

void ReadGemma2(ConfigFields& fields, ModelConfig& config) {
  ReadGemmaParts(fields, config);
  config.activation = ReadActivation(fields, "hidden_activation", Activation::kGeluTanh);
  config.norm_placement = NormPlacement::kBeforeAndAfter;
  config.attention_scale = std::pow(fields.Number("query_pre_attn_scalar", 0.0, 1e9, 256.0), -0.5);
  config.attention_soft_cap = ReadSoftCap(fields, "attn_logit_softcapping", 50.0);
  config.final_soft_cap = ReadSoftCap(fields, "final_logit_softcapping", 30.0);
  FillWindows(fields, config, ReadWindow(fields, 4096), [](int64_t layer) { return layer % 2 == 0; });
  ReadRope(fields, config);
}

void ReadOlmo2(ConfigFields& fields, ModelConfig& config) {
  ReadCommon(fields, config, {.max_positions = 2048, .rms_norm_eps = 1e-5, .bos = {}, .eos = {50279}});
  config.activation = ReadActivation(fields, "hidden_act", Activation::kSilu);
  ReadAttentionBias(fields, config);
  config.norm_placement = NormPlacement::kAfter;
  config.norm_rounds_last = true;
  config.query_key_norm = QueryKeyNorm::kAllHeads;
  FillFixedWindows(fields, config, 0, false);
  ReadRope(fields, config);
}

// gemma2 calls the norm after attention what others call the one before the MLP.
WeightNames Gemma2Names() {
  WeightNames names;
  names.mlp_norm = "pre_feedforward_layernorm.weight";
  return names;
}

}  // namespace

const std::vector<Family>& Families() {
  static const std::vector<Family>* const families = new std::vector<Family>{
      {"llama", &ReadLlama, {}}, {"mistral", &ReadMistral, {}}, {"qwen2", &ReadQwen2, {}},
      {"qwen3", &ReadQwen3, {}}, {"gemma", &ReadGemma, {}},     {"gemma2", &ReadGemma2, Gemma2Names()},
      {"olmo2", &ReadOlmo2, {}},
  };
  return *families;
}

const Family* FindFamily(std::string_view model_type) {
  for (const Family& family : Families()) {
    if (family.model_type == model_type) return &family;
  }
  return nullptr;
}

}  // namespace ropelab::formats
