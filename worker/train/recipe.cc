#include "worker/train/recipe.h"

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/formats/config_fields.h"
#include "worker/formats/json_text.h"

namespace ropelab::train {
namespace {

constexpr size_t kMaxBytes = 1'000'000;
constexpr double kTiny = 1e-300;
constexpr int64_t kManySteps = 10'000'000;

using formats::ConfigFields;

// Refuses what nobody would read.
void OnlyThese(ConfigFields& fields, std::initializer_list<std::string_view> known) {
  for (const std::string& name : fields.Names()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string list;
    for (const std::string_view each : known)
      absl::StrAppend(&list, list.empty() ? "" : ", ", std::string(each));
    fields.Refuse(name, "a field that a recipe does not have", absl::StrCat("fields here are ", list));
  }
}

// Numbers from 0 on are written as half-open ranges from just below it.
double Share(ConfigFields& fields, const char* name, double missing) {
  return fields.Number(name, -kTiny, 1, missing);
}

std::vector<int64_t> Ascending(ConfigFields& fields, const char* name, const std::vector<int64_t>& missing,
                               int64_t low, int64_t high) {
  const std::vector<int32_t> given =
      fields.TokenIds(name, std::vector<int32_t>(missing.begin(), missing.end()));
  std::vector<int64_t> values(given.begin(), given.end());
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < low || values[i] > high) {
      fields.Refuse(name, absl::StrCat(values[i]), absl::StrCat("entries are from ", low, " to ", high));
    }
    if (i > 0 && values[i] <= values[i - 1]) {
      fields.Refuse(name, absl::StrCat(values[i - 1], ", ", values[i]), "entries ascend");
    }
  }
  return values;
}

std::string OneOf(ConfigFields& fields, const char* name, const std::string& missing,
                  std::initializer_list<std::string_view> known) {
  const std::string value = fields.Text(name, missing);
  if (std::find(known.begin(), known.end(), value) == known.end()) {
    std::string list;
    for (const std::string_view each : known)
      absl::StrAppend(&list, list.empty() ? "" : " or ", std::string(each));
    fields.Refuse(name, value, absl::StrCat("write ", list));
  }
  return value;
}

void ReadShape(ConfigFields& root, ModelShape& shape) {
  ConfigFields fields = root.Object("shape");
  OnlyThese(fields, {"hidden", "layers", "heads", "kv_heads", "head_dim", "intermediate", "max_positions",
                     "rope_theta", "norm_eps"});
  shape.hidden = fields.Integer("hidden", 8, 65536, shape.hidden);
  shape.layers = fields.Integer("layers", 1, 256, shape.layers);
  shape.heads = fields.Integer("heads", 1, 1024, shape.heads);
  shape.kv_heads = fields.Integer("kv_heads", 1, 1024, shape.kv_heads);
  shape.head_dim = fields.Integer("head_dim", 2, 1024, shape.head_dim);
  shape.intermediate = fields.Integer("intermediate", 8, 1 << 20, shape.intermediate);
  shape.max_positions = fields.Integer("max_positions", 64, 1 << 20, shape.max_positions);
  shape.rope_theta = fields.Number("rope_theta", 1, 1e15, shape.rope_theta);
  shape.norm_eps = fields.Number("norm_eps", 0, 1, shape.norm_eps);
  if (shape.heads % shape.kv_heads != 0) {
    fields.Refuse("kv_heads", absl::StrCat(shape.kv_heads),
                  absl::StrCat("it must divide heads, ", shape.heads));
  }
  if (shape.head_dim % 2 != 0) {
    fields.Refuse("head_dim", absl::StrCat(shape.head_dim), "it must be even: RoPE turns pairs");
  }
  root.Adopt(fields);
}

void ReadAdamW(ConfigFields& root, AdamWRule& rule) {
  ConfigFields fields = root.Object("adamw");
  OnlyThese(fields, {"rate", "warmup", "last_share", "beta1", "beta2", "epsilon", "weight_decay", "clip"});
  rule.rate = fields.Number("rate", 0, 1, rule.rate);
  rule.warmup = fields.Integer("warmup", 1, kManySteps, rule.warmup);
  rule.last_share = Share(fields, "last_share", rule.last_share);
  rule.beta1 = fields.Number("beta1", -kTiny, 0.9999999, rule.beta1);
  rule.beta2 = fields.Number("beta2", -kTiny, 0.9999999, rule.beta2);
  rule.epsilon = fields.Number("epsilon", 0, 1, rule.epsilon);
  rule.weight_decay = Share(fields, "weight_decay", rule.weight_decay);
  rule.clip = fields.Number("clip", 0, 1e9, rule.clip);
  root.Adopt(fields);
}

void ReadCurriculum(ConfigFields& root, const ModelShape& shape, Curriculum& curriculum) {
  ConfigFields fields = root.Object("curriculum");
  OnlyThese(fields, {"lengths", "pass", "every", "samples"});
  curriculum.lengths = Ascending(fields, "lengths", curriculum.lengths, kShortestPrompt, shape.max_positions);
  if (curriculum.lengths.empty()) fields.Refuse("lengths", "an empty list", "name at least one length");
  curriculum.pass = Share(fields, "pass", curriculum.pass);
  curriculum.every = fields.Integer("every", 1, kManySteps, curriculum.every);
  curriculum.samples = fields.Integer("samples", 1, 100'000, curriculum.samples);
  root.Adopt(fields);
}

void ReadMix(ConfigFields& root, SampleMix& mix) {
  ConfigFields fields = root.Object("mix");
  OnlyThese(fields, {"spans", "plain", "generated", "noise"});
  mix.spans = Share(fields, "spans", mix.spans);
  mix.plain = Share(fields, "plain", mix.plain);
  mix.generated = Share(fields, "generated", mix.generated);
  mix.noise = Share(fields, "noise", mix.noise);
  root.Adopt(fields);
}

void ReadFree(ConfigFields& fields, const ModelShape& shape, const nlohmann::json& list,
              HeadPressure& heads) {
  const char* const remedy = "write a list of heads such as [\"L2H0\", \"L3H1\"], both counted from 0";
  if (!list.is_array()) return fields.Refuse("free", list.dump(), remedy);
  for (const nlohmann::json& item : list) {
    long long layer = -1, head = -1;
    int read = 0;
    const std::string text = item.is_string() ? item.get<std::string>() : "";
    const bool whole = std::sscanf(text.c_str(), "L%4lldH%4lld%n", &layer, &head, &read) == 2 &&
                       static_cast<size_t>(read) == text.size();
    if (!whole || layer < 0 || layer >= shape.layers || head < 0 || head >= shape.heads) {
      return fields.Refuse("free", item.dump(), remedy);
    }
    heads.free.emplace_back(layer, head);
  }
}

void ReadHeads(ConfigFields& root, const ModelShape& shape, const nlohmann::json& given,
               HeadPressure& heads) {
  ConfigFields fields = root.Object("heads");
  OnlyThese(fields, {"dropout", "gaze", "free", "start", "warmup"});
  if (fields.Has("dropout")) {
    heads.dropout = fields.Numbers("dropout", static_cast<size_t>(shape.layers), -kTiny, 0.45);
  }
  heads.gaze = fields.Number("gaze", -kTiny, 1e6, heads.gaze);
  if (given.is_object() && given.contains("free")) ReadFree(fields, shape, given["free"], heads);
  heads.start = fields.Integer("start", 0, kManySteps, heads.start);
  heads.warmup = fields.Integer("warmup", 1, kManySteps, heads.warmup);
  root.Adopt(fields);
}

absl::StatusOr<Recipe> FromJson(const nlohmann::json& json, const std::string& name) {
  Recipe recipe;
  ConfigFields fields(json, name);
  OnlyThese(fields,
            {"name", "seed", "dtype", "products", "shape", "vocabulary", "tokenizer_sentences", "steps",
             "tokens_per_step", "answer_weight", "heads", "adamw", "curriculum", "mix", "checkpoints"});
  recipe.name = fields.Text("name", recipe.name);
  if (recipe.name.empty() || recipe.name.find('/') != std::string::npos || recipe.name[0] == '.') {
    fields.Refuse("name", absl::StrCat("\"", recipe.name, "\""), "it names a folder");
  }
  recipe.seed =
      static_cast<uint64_t>(fields.Integer("seed", 0, int64_t{1} << 53, static_cast<int64_t>(recipe.seed)));
  recipe.dtype = OneOf(fields, "dtype", recipe.dtype, {"float16", "bfloat16", "float32"});
  recipe.products = OneOf(fields, "products", recipe.products, {"bfloat16", "float32"});
  ReadShape(fields, recipe.shape);
  recipe.vocabulary = fields.Integer("vocabulary", kFixedTokens, 65536, recipe.vocabulary);
  recipe.tokenizer_sentences =
      fields.Integer("tokenizer_sentences", 1, 10'000'000, recipe.tokenizer_sentences);
  recipe.steps = fields.Integer("steps", 1, kManySteps, recipe.steps);
  recipe.tokens_per_step =
      fields.Integer("tokens_per_step", kShortestPrompt, 1 << 24, recipe.tokens_per_step);
  recipe.answer_weight = fields.Number("answer_weight", -kTiny, 1e6, recipe.answer_weight);
  ReadHeads(fields, recipe.shape, json.contains("heads") ? json["heads"] : nlohmann::json(), recipe.heads);
  ReadAdamW(fields, recipe.adamw);
  ReadCurriculum(fields, recipe.shape, recipe.curriculum);
  ReadMix(fields, recipe.mix);
  recipe.checkpoints = Ascending(fields, "checkpoints", recipe.checkpoints, 0, recipe.steps);
  for (const int64_t step : recipe.checkpoints) {
    if (step % recipe.curriculum.every != 0) {
      fields.Refuse("checkpoints", absl::StrCat(step),
                    absl::StrCat("entries are multiples of curriculum.every, ", recipe.curriculum.every));
    }
  }
  ROPELAB_RETURN_IF_ERROR(fields.status());
  return recipe;
}

}  // namespace

absl::StatusOr<Recipe> ReadRecipe(const std::string& path) {
  ROPELAB_ASSIGN_OR_RETURN(const nlohmann::json json, formats::ReadJsonObject(path, kMaxBytes));
  ROPELAB_ASSIGN_OR_RETURN(Recipe recipe, FromJson(json, path));
  recipe.text = json.dump();
  return recipe;
}

}  // namespace ropelab::train
