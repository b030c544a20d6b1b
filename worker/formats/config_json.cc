// config.json to ModelConfig (declared in checkpoint.h).
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
  for (const char* name : {"quantization_config", "compression_config"}) {
    if (fields.Has(name)) {
      fields.Refuse(name, "present",
                    "quantised checkpoints are not read; give float32, bfloat16 or float16 weights");
    }
  }
  config.dtype = ReadDtype(fields);
  family->read(fields, config);
  ROPELAB_RETURN_IF_ERROR(fields.status());
  return config;
}

std::string ConfigHash(const ModelConfig& config) {
  return Sha256Hex(CanonicalConfigText(config));
}

}  // namespace ropelab::formats
