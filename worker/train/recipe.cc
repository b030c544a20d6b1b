#include "worker/train/recipe.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/formats/config_fields.h"
#include "worker/formats/families.h"
#include "worker/formats/json_text.h"
#include "worker/formats/model_config.h"
#include "worker/train/export_model.h"
#include "worker/train/recipe_fields.h"

namespace ropelab::train {
namespace {

constexpr size_t kMaxBytes = 1'000'000;
constexpr int64_t kMaxPositions = 1 << 20;
constexpr int64_t kManySteps = 10'000'000;

using formats::ConfigFields;

double Share(ConfigFields& fields, const char* name, double missing) {
  return NumberFrom(fields, name, 0, 1, missing);
}

void Ascend(ConfigFields& fields, const char* name, const std::vector<int64_t>& values) {
  for (size_t i = 1; i < values.size(); ++i) {
    if (values[i] <= values[i - 1]) {
      fields.Refuse(name, absl::StrCat(values[i - 1], ", ", values[i]), "entries ascend");
    }
  }
}

void ReadShape(ConfigFields& root, ModelShape& shape) {
  ConfigFields fields = root.Object("shape");
  OnlyThese(fields, {"hidden", "layers", "heads", "kv_heads", "head_dim", "intermediate", "max_positions",
                     "rope_theta", "norm_eps"});
  shape.hidden = WholeNumber(fields, "hidden", 8, 65536, shape.hidden);
  shape.layers = WholeNumber(fields, "layers", 1, 256, shape.layers);
  shape.heads = WholeNumber(fields, "heads", 1, 1024, shape.heads);
  shape.kv_heads = WholeNumber(fields, "kv_heads", 1, 1024, shape.kv_heads);
  shape.head_dim = WholeNumber(fields, "head_dim", 2, 1024, shape.head_dim);
  shape.intermediate = WholeNumber(fields, "intermediate", 8, 1 << 20, shape.intermediate);
  shape.max_positions =
      WholeNumber(fields, "max_positions", kShortestPrompt, kMaxPositions, shape.max_positions);
  shape.rope_theta = fields.Number("rope_theta", 1, 1e15, shape.rope_theta);
  shape.norm_eps = fields.Number("norm_eps", 0, 0.1, shape.norm_eps);
  if (shape.heads % shape.kv_heads != 0) {
    if (fields.Has("kv_heads")) {
      fields.Refuse("kv_heads", absl::StrCat(shape.kv_heads),
                    absl::StrCat("it must divide heads, ", shape.heads));
    } else {
      fields.Refuse("heads", absl::StrCat(shape.heads),
                    absl::StrCat("kv_heads, ", shape.kv_heads,
                                 " where it is left out, must divide it; write kv_heads"));
    }
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
  rule.warmup = WholeNumber(fields, "warmup", 1, kManySteps, rule.warmup);
  rule.last_share = Share(fields, "last_share", rule.last_share);
  rule.beta1 = NumberFrom(fields, "beta1", 0, 0.9999999, rule.beta1);
  rule.beta2 = NumberFrom(fields, "beta2", 0, 0.9999999, rule.beta2);
  rule.epsilon = fields.Number("epsilon", 0, 1, rule.epsilon);
  rule.weight_decay = Share(fields, "weight_decay", rule.weight_decay);
  rule.clip = fields.Number("clip", 0, 1e9, rule.clip);
  root.Adopt(fields);
}

// The lengths may be the file's or the defaults: what is refused is what the file holds.
void FitPositions(ConfigFields& root, ConfigFields& fields, const ModelShape& shape,
                  const std::vector<int64_t>& lengths) {
  if (lengths.back() <= shape.max_positions) return;
  if (fields.Has("lengths")) {
    fields.Refuse("lengths", absl::StrCat(lengths.back()),
                  absl::StrCat("entries are at most shape.max_positions, ", shape.max_positions));
  } else {
    root.Refuse("shape.max_positions", absl::StrCat(shape.max_positions),
                absl::StrCat("curriculum.lengths, left out, go up to ", lengths.back(),
                             "; write curriculum.lengths of at most ", shape.max_positions));
  }
}

void ReadCurriculum(ConfigFields& root, const ModelShape& shape, Curriculum& curriculum) {
  ConfigFields fields = root.Object("curriculum");
  OnlyThese(fields, {"lengths", "pass", "every", "samples"});
  curriculum.lengths = WholeNumbers(fields, "lengths", kShortestPrompt, kMaxPositions, curriculum.lengths);
  Ascend(fields, "lengths", curriculum.lengths);
  if (curriculum.lengths.empty()) {
    fields.Refuse("lengths", "an empty list", "name at least one length");
  } else {
    FitPositions(root, fields, shape, curriculum.lengths);
  }
  curriculum.pass = Share(fields, "pass", curriculum.pass);
  curriculum.every = WholeNumber(fields, "every", 1, kManySteps, curriculum.every);
  curriculum.samples = WholeNumber(fields, "samples", 1, 100'000, curriculum.samples);
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

// In order, each once, so that one choice has one canonical text.
void ReadFree(ConfigFields& fields, const ModelShape& shape, HeadPressure& heads) {
  if (!fields.Has("free")) return;
  const nlohmann::json& list = fields.object().at("free");
  const std::string remedy =
      absl::StrCat("write a list of heads such as [\"L2H0\", \"L3H1\"], counted from 0, of ", shape.layers,
                   " layers of ", shape.heads, " heads");
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
  std::sort(heads.free.begin(), heads.free.end());
  heads.free.erase(std::unique(heads.free.begin(), heads.free.end()), heads.free.end());
}

void ReadHeads(ConfigFields& root, const ModelShape& shape, HeadPressure& heads) {
  ConfigFields fields = root.Object("heads");
  OnlyThese(fields, {"dropout", "gaze", "free", "start", "warmup"});
  heads.dropout = NumbersFrom(fields, "dropout", 0, 0.45, heads.dropout);
  if (!heads.dropout.empty() && heads.dropout.size() != static_cast<size_t>(shape.layers)) {
    fields.Refuse(
        "dropout", absl::StrCat("a list of ", heads.dropout.size()),
        absl::StrCat("it must have a number for each of the ", shape.layers, " layers, or none at all"));
  }
  heads.gaze = NumberFrom(fields, "gaze", 0, 1e6, heads.gaze);
  ReadFree(fields, shape, heads);
  heads.start = WholeNumber(fields, "start", 0, kManySteps, heads.start);
  heads.warmup = WholeNumber(fields, "warmup", 1, kManySteps, heads.warmup);
  root.Adopt(fields);
}

std::string ReadName(ConfigFields& fields, const std::string& missing) {
  const std::string name = fields.Text("name", missing);
  const std::string shown = nlohmann::json(name).dump();
  const bool odd = std::any_of(name.begin(), name.end(), [](char c) {
    return c == '/' || c == ',' || c == '"' || (c >= 0 && c < ' ');
  });
  if (name.empty() || name[0] == '.' || odd) {
    fields.Refuse(
        "name", shown,
        "it names the model's folder and stands in tables: no dot first, and no slash, comma, quote "
        "or line break");
  }
  for (const char* const taken : {"state", "checkpoints"}) {
    if (name == taken) {
      fields.Refuse("name", shown,
                    "the folder of that name beside the model's is the training's own; give another");
    }
  }
  return name;
}

// What the model's reader would refuse in the end is refused before the first step.
absl::Status CheckModelConfig(const Recipe& recipe, const std::string& file) {
  const nlohmann::json config = nlohmann::json::parse(ConfigJson(recipe, recipe.vocabulary));
  ConfigFields fields(config, absl::StrCat(file, ": the config.json that it makes"));
  formats::ModelConfig read;
  formats::FindFamily(fields.Text("model_type", ""))->read(fields, read);
  return fields.status();
}

absl::StatusOr<Recipe> FromJson(const nlohmann::json& json, const std::string& name) {
  Recipe recipe;
  ConfigFields fields(json, name);
  OnlyThese(fields,
            {"name", "seed", "dtype", "products", "shape", "vocabulary", "tokenizer_sentences", "steps",
             "tokens_per_step", "answer_weight", "heads", "adamw", "curriculum", "mix", "checkpoints"});
  recipe.name = ReadName(fields, recipe.name);
  recipe.seed = static_cast<uint64_t>(
      WholeNumber(fields, "seed", 0, int64_t{1} << 53, static_cast<int64_t>(recipe.seed)));
  recipe.dtype = OneOf(fields, "dtype", recipe.dtype, {"float16", "bfloat16", "float32"});
  recipe.products = OneOf(fields, "products", recipe.products, {"bfloat16", "float32"});
  ReadShape(fields, recipe.shape);
  recipe.vocabulary = WholeNumber(fields, "vocabulary", kFixedTokens, 65536, recipe.vocabulary);
  recipe.tokenizer_sentences =
      WholeNumber(fields, "tokenizer_sentences", 1, 10'000'000, recipe.tokenizer_sentences);
  recipe.steps = WholeNumber(fields, "steps", 1, kManySteps, recipe.steps);
  recipe.tokens_per_step =
      WholeNumber(fields, "tokens_per_step", kShortestPrompt, 1 << 24, recipe.tokens_per_step);
  recipe.answer_weight = NumberFrom(fields, "answer_weight", 0, 1e6, recipe.answer_weight);
  ReadHeads(fields, recipe.shape, recipe.heads);
  ReadAdamW(fields, recipe.adamw);
  ReadCurriculum(fields, recipe.shape, recipe.curriculum);
  ReadMix(fields, recipe.mix);
  recipe.checkpoints = WholeNumbers(fields, "checkpoints", 0, kManySteps, recipe.checkpoints);
  Ascend(fields, "checkpoints", recipe.checkpoints);
  for (const int64_t step : recipe.checkpoints) {
    if (step > recipe.steps) {
      fields.Refuse("checkpoints", absl::StrCat(step),
                    absl::StrCat("entries are at most steps, ", recipe.steps));
    }
    if (step % recipe.curriculum.every != 0) {
      fields.Refuse("checkpoints", absl::StrCat(step),
                    absl::StrCat("entries are multiples of curriculum.every, ", recipe.curriculum.every));
    }
  }
  ROPELAB_RETURN_IF_ERROR(fields.status());
  ROPELAB_RETURN_IF_ERROR(CheckModelConfig(recipe, name));
  recipe.text = CanonicalRecipeText(recipe);
  return recipe;
}

}  // namespace

absl::StatusOr<Recipe> ReadRecipe(const std::string& path) {
  ROPELAB_ASSIGN_OR_RETURN(const nlohmann::json json, formats::ReadJsonObject(path, kMaxBytes));
  return FromJson(json, path);
}

}  // namespace ropelab::train
