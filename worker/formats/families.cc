#include "worker/formats/families.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace ropelab::formats {
namespace {

// Far beyond any model there is: a larger number is a broken file, and the products of these fit 64 bits.
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxHeads = 65536;
constexpr int64_t kMaxHeadDim = 8192;
constexpr int64_t kMaxWidth = int64_t{1} << 22;
constexpr int64_t kMaxVocabulary = int64_t{1} << 24;
constexpr int64_t kMaxPositions = int64_t{1} << 30;
constexpr double kMaxTheta = 1e15;

// rope_parameters (newer) before rope_scaling (older), rope_type before type.
void ReadRope(ConfigFields& fields, ModelConfig& config) {
  config.rope_theta = fields.Number("rope_theta", 1.0, kMaxTheta, 10000.0);
  ConfigFields parameters = fields.Object("rope_parameters");
  ConfigFields scaling = fields.Object("rope_scaling");
  config.rope_theta = parameters.Number("rope_theta", 1.0, kMaxTheta, config.rope_theta);
  const auto type_of = [](ConfigFields& from) { return from.Text("rope_type", from.Text("type", "")); };
  std::string type = type_of(parameters);
  ConfigFields* source = &parameters;
  if (type.empty() && fields.Has("rope_scaling")) {
    source = &scaling;
    type = type_of(scaling);
    if (type.empty()) scaling.Refuse("rope_type", "missing", "name the scaling: default or llama3");
  }
  for (ConfigFields* place : {&fields, source}) {
    if (place->Number("partial_rotary_factor", 0.0, 1.0, 1.0) != 1.0) {
      place->Refuse("partial_rotary_factor", "below 1", "this family rotates whole heads: 1 or absent");
    }
  }
  if (type == "llama3") {
    config.rope_scaling.kind = RopeScalingKind::kLlama3;
    config.rope_scaling.factor = source->Number("factor", 0.0, 1e6, std::nullopt);
    config.rope_scaling.low_freq_factor = source->Number("low_freq_factor", 0.0, 1e6, std::nullopt);
    config.rope_scaling.high_freq_factor = source->Number("high_freq_factor", 0.0, 1e6, std::nullopt);
    config.rope_scaling.original_max_positions =
        source->Integer("original_max_position_embeddings", 1, kMaxPositions, std::nullopt);
    if (config.rope_scaling.high_freq_factor <= config.rope_scaling.low_freq_factor) {
      source->Refuse("high_freq_factor", absl::StrCat(config.rope_scaling.high_freq_factor),
                     absl::StrCat("it must be above low_freq_factor, ", config.rope_scaling.low_freq_factor));
    }
  } else if (!type.empty() && type != "default") {
    source->Refuse("rope_type", absl::StrCat("\"", type, "\""),
                   "this scaling of RoPE is not known; known are default and llama3");
  }
  fields.Adopt(parameters);
  fields.Adopt(scaling);
}

void ReadHeads(ConfigFields& fields, ModelConfig& config) {
  config.hidden_size = fields.Integer("hidden_size", 1, kMaxWidth, std::nullopt);
  config.query_heads = fields.Integer("num_attention_heads", 1, kMaxHeads, std::nullopt);
  config.kv_heads = fields.Integer("num_key_value_heads", 1, kMaxHeads, config.query_heads);
  if (config.query_heads % config.kv_heads != 0) {
    fields.Refuse("num_key_value_heads", absl::StrCat(config.kv_heads),
                  absl::StrCat("it must divide num_attention_heads, ", config.query_heads));
  }
  const bool whole = config.hidden_size % config.query_heads == 0;
  if (!fields.Has("head_dim") && !whole) {
    fields.Refuse("head_dim", "missing",
                  absl::StrCat("give it: hidden_size ", config.hidden_size,
                               " is no multiple of num_attention_heads ", config.query_heads));
  }
  config.head_dim = fields.Integer("head_dim", 2, kMaxHeadDim, config.hidden_size / config.query_heads);
  if (config.head_dim < 2 || config.head_dim > kMaxHeadDim || config.head_dim % 2 != 0) {
    fields.Refuse("head_dim", absl::StrCat(config.head_dim),
                  absl::StrCat("it must be even and from 2 to ", kMaxHeadDim, ": RoPE turns pairs"));
  }
  if (config.query_heads * config.head_dim > kMaxWidth) {
    fields.Refuse("num_attention_heads", absl::StrCat(config.query_heads),
                  absl::StrCat("heads times head_dim ", config.head_dim, " must be at most ", kMaxWidth));
  }
  config.attention_scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim));
}

void ReadLlama(ConfigFields& fields, ModelConfig& config) {
  config.layers = fields.Integer("num_hidden_layers", 1, kMaxLayers, std::nullopt);
  ReadHeads(fields, config);
  config.intermediate_size = fields.Integer("intermediate_size", 1, kMaxWidth, std::nullopt);
  config.vocabulary = fields.Integer("vocab_size", 1, kMaxVocabulary, std::nullopt);
  config.max_positions = fields.Integer("max_position_embeddings", 1, kMaxPositions, 2048);
  config.rms_norm_eps = fields.Number("rms_norm_eps", 0.0, 0.1, 1e-6);
  ReadRope(fields, config);
  const std::string activation = fields.Text("hidden_act", "silu");
  if (activation != "silu") {
    fields.Refuse("hidden_act", absl::StrCat("\"", activation, "\""), "this family is read with silu alone");
  }
  config.activation = Activation::kSilu;
  config.tied_embeddings = fields.Boolean("tie_word_embeddings", false);
  config.qkv_bias = fields.Boolean("attention_bias", false);
  config.output_bias = config.qkv_bias;
  config.mlp_bias = fields.Boolean("mlp_bias", false);
  config.sliding_window.assign(static_cast<size_t>(config.layers), 0);
  const std::vector<int32_t> bos = fields.TokenIds("bos_token_id", {1});
  if (bos.size() > 1) fields.Refuse("bos_token_id", "a list", "it must be one token id or null");
  if (!bos.empty() && bos[0] < config.vocabulary) config.bos_token_id = bos[0];
  if (!bos.empty() && bos[0] >= config.vocabulary && fields.Has("bos_token_id")) {
    fields.Refuse("bos_token_id", absl::StrCat(bos[0]),
                  absl::StrCat("it must be below vocab_size, ", config.vocabulary, ", or null"));
  }
  config.eos_token_ids = fields.TokenIds("eos_token_id", {2});
}

}  // namespace

const std::vector<Family>& Families() {
  static const std::vector<Family>* const families = new std::vector<Family>{{"llama", &ReadLlama, {}}};
  return *families;
}

const Family* FindFamily(std::string_view model_type) {
  for (const Family& family : Families()) {
    if (family.model_type == model_type) return &family;
  }
  return nullptr;
}

}  // namespace ropelab::formats
