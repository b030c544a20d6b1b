// config.json to ModelConfig, and the text its hash is taken over (declared in checkpoint.h and
// model_config.h).
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "worker/formats/checkpoint.h"
#include "worker/formats/config_fields.h"
#include "worker/formats/families.h"
#include "worker/formats/json_text.h"
#include "worker/formats/model_config.h"

namespace ropelab::formats {
namespace {

constexpr size_t kMaxConfigBytes = 1'000'000;

std::string FamilyNames() {
  return absl::StrJoin(Families(), ", ",
                       [](std::string* out, const Family& family) { out->append(family.model_type); });
}

// Older configs say torch_dtype, newer ones dtype.
Dtype ReadDtype(ConfigFields& fields) {
  const std::string name = fields.Text("dtype", fields.Text("torch_dtype", "float32"));
  if (name == "bfloat16") return Dtype::kBFloat16;
  if (name == "float16") return Dtype::kFloat16;
  if (name != "float32") {
    fields.Refuse(fields.Has("dtype") ? "dtype" : "torch_dtype", absl::StrCat("\"", name, "\""),
                  "it must be float32, bfloat16 or float16");
  }
  return Dtype::kFloat32;
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

// 17 digits name a double exactly.
std::string Exact(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.17g", value);
  return text;
}

}  // namespace

absl::StatusOr<ModelConfig> ReadConfig(const std::string& directory) {
  const std::string path = (std::filesystem::path(directory) / "config.json").string();
  ROPELAB_ASSIGN_OR_RETURN(const nlohmann::json json, ReadJsonObject(path, kMaxConfigBytes));
  ConfigFields fields(json, path);
  ModelConfig config;
  config.family = fields.Text("model_type", "");
  const Family* family = FindFamily(config.family);
  if (family == nullptr) {
    fields.Refuse("model_type", config.family.empty() ? "missing" : absl::StrCat("\"", config.family, "\""),
                  absl::StrCat("families that are read: ", FamilyNames()));
    return fields.status();
  }
  if (fields.Has("quantization_config")) {
    fields.Refuse("quantization_config", "present",
                  "quantised checkpoints are not read; give float32, bfloat16 or float16 weights");
  }
  config.dtype = ReadDtype(fields);
  family->read(fields, config);
  ROPELAB_RETURN_IF_ERROR(fields.status());
  return config;
}

std::string CanonicalConfigText(const ModelConfig& config) {
  std::string text =
      absl::StrCat("family=", config.family, "\nlayers=", config.layers, "\nquery_heads=", config.query_heads,
                   "\nkv_heads=", config.kv_heads, "\nhead_dim=", config.head_dim,
                   "\nhidden_size=", config.hidden_size, "\nintermediate_size=", config.intermediate_size);
  absl::StrAppend(
      &text, "\nvocabulary=", config.vocabulary, "\nmax_positions=", config.max_positions,
      "\nrms_norm_eps=", Exact(config.rms_norm_eps), "\nrope_theta=", Exact(config.rope_theta),
      "\nrope_scaling=", config.rope_scaling.kind == RopeScalingKind::kLlama3 ? "llama3" : "none");
  if (config.rope_scaling.kind == RopeScalingKind::kLlama3) {
    const RopeScaling& scaling = config.rope_scaling;
    absl::StrAppend(&text, "\nrope_factor=", Exact(scaling.factor),
                    "\nrope_low_freq_factor=", Exact(scaling.low_freq_factor),
                    "\nrope_high_freq_factor=", Exact(scaling.high_freq_factor),
                    "\nrope_original_max_positions=", scaling.original_max_positions);
  }
  absl::StrAppend(&text, "\nattention_scale=", Exact(config.attention_scale), "\nactivation=silu",
                  "\ntied_embeddings=", config.tied_embeddings ? 1 : 0,
                  "\nqkv_bias=", config.qkv_bias ? 1 : 0, "\noutput_bias=", config.output_bias ? 1 : 0,
                  "\nmlp_bias=", config.mlp_bias ? 1 : 0);
  absl::StrAppend(&text, "\nsliding_window=", absl::StrJoin(config.sliding_window, ","),
                  "\ndtype=", DtypeName(config.dtype), "\nbos_token_id=",
                  config.bos_token_id.has_value() ? absl::StrCat(*config.bos_token_id) : "none",
                  "\neos_token_ids=", absl::StrJoin(config.eos_token_ids, ","), "\n");
  return text;
}

std::string ConfigHash(const ModelConfig& config) {
  return Sha256Hex(CanonicalConfigText(config));
}

}  // namespace ropelab::formats
