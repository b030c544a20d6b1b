// The text that a config's hash is taken over (declared in model_config.h). Its first lines are as old as the
// first family: a line that moves, or a part that is written though unused, moves every hash.
#include <cstdio>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/formats/model_config.h"
#include "worker/formats/rope_scaling_fields.h"

namespace ropelab::formats {
namespace {

// 17 digits name a double exactly.
std::string Exact(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.17g", value);
  return text;
}

std::string Exact(const std::vector<double>& values) {
  return absl::StrJoin(values, ",", [](std::string* out, double value) { out->append(Exact(value)); });
}

const char* DtypeName(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
      return "float32";
    case Dtype::kBFloat16:
      return "bfloat16";
    case Dtype::kFloat16:
      return "float16";
  }
  return "";
}

const char* ActivationName(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return "silu";
    case Activation::kGelu:
      return "gelu";
    case Activation::kGeluTanh:
      return "gelu_tanh";
  }
  return "";
}

class Lines {
 public:
  void Add(std::string_view name, const std::string& value) {
    text_.append(name).append("=").append(value).append("\n");
  }
  void Add(std::string_view name, int64_t value) { Add(name, absl::StrCat(value)); }
  void Add(std::string_view name, double value) { Add(name, Exact(value)); }
  void Add(std::string_view name, bool value) { Add(name, std::string(value ? "1" : "0")); }
  // Of a part that most models lack.
  template <typename T>
  void AddUnless(T unused, std::string_view name, T value) {
    if (value != unused) Add(name, value);
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

// A kind writes the fields that it reads, and no other.
void AddScaling(Lines& lines, const RopeScaling& scaling) {
  const RopeScaling unused;
  lines.Add("rope_scaling", std::string(RopeScalingName(scaling.kind)));
  const bool llama3 = scaling.kind == RopeScalingKind::kLlama3;
  if (llama3 || scaling.factor != unused.factor) lines.Add("rope_factor", scaling.factor);
  if (llama3) {
    lines.Add("rope_low_freq_factor", scaling.low_freq_factor);
    lines.Add("rope_high_freq_factor", scaling.high_freq_factor);
  }
  lines.AddUnless(unused.original_max_positions, "rope_original_max_positions",
                  scaling.original_max_positions);
  lines.AddUnless(unused.beta_fast, "rope_beta_fast", scaling.beta_fast);
  lines.AddUnless(unused.beta_slow, "rope_beta_slow", scaling.beta_slow);
  lines.AddUnless(unused.truncate, "rope_truncate", scaling.truncate);
  lines.AddUnless(unused.attention_factor, "rope_attention_factor", scaling.attention_factor);
  if (!scaling.short_factor.empty()) lines.Add("rope_short_factor", Exact(scaling.short_factor));
  if (!scaling.long_factor.empty()) lines.Add("rope_long_factor", Exact(scaling.long_factor));
}

void AddRarerParts(Lines& lines, const ModelConfig& config) {
  lines.AddUnless(false, "norm_adds_one", config.norm_adds_one);
  lines.AddUnless(false, "norm_rounds_last", config.norm_rounds_last);
  if (config.norm_placement != NormPlacement::kBefore) {
    lines.Add("norm_placement",
              std::string(config.norm_placement == NormPlacement::kAfter ? "after" : "before_and_after"));
  }
  if (config.query_key_norm != QueryKeyNorm::kNone) {
    lines.Add("query_key_norm",
              std::string(config.query_key_norm == QueryKeyNorm::kPerHead ? "per_head" : "all_heads"));
  }
  lines.AddUnless(1.0, "embedding_scale", config.embedding_scale);
  lines.AddUnless(0.0, "attention_soft_cap", config.attention_soft_cap);
  lines.AddUnless(0.0, "final_soft_cap", config.final_soft_cap);
}

}  // namespace

std::string CanonicalConfigText(const ModelConfig& config) {
  Lines lines;
  lines.Add("family", config.family);
  lines.Add("layers", config.layers);
  lines.Add("query_heads", config.query_heads);
  lines.Add("kv_heads", config.kv_heads);
  lines.Add("head_dim", config.head_dim);
  lines.Add("hidden_size", config.hidden_size);
  lines.Add("intermediate_size", config.intermediate_size);
  lines.Add("vocabulary", config.vocabulary);
  lines.Add("max_positions", config.max_positions);
  lines.Add("rms_norm_eps", config.rms_norm_eps);
  lines.Add("rope_theta", config.rope_theta);
  AddScaling(lines, config.rope_scaling);
  lines.Add("attention_scale", config.attention_scale);
  lines.Add("activation", std::string(ActivationName(config.activation)));
  lines.Add("tied_embeddings", config.tied_embeddings);
  lines.Add("qkv_bias", config.qkv_bias);
  lines.Add("output_bias", config.output_bias);
  lines.Add("mlp_bias", config.mlp_bias);
  AddRarerParts(lines, config);
  lines.Add("sliding_window", absl::StrJoin(config.sliding_window, ","));
  lines.Add("dtype", std::string(DtypeName(config.dtype)));
  lines.Add("bos_token_id", config.bos_token_id.has_value() ? absl::StrCat(*config.bos_token_id) : "none");
  lines.Add("eos_token_ids", absl::StrJoin(config.eos_token_ids, ","));
  return lines.Take();
}

}  // namespace ropelab::formats
