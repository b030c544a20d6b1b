// The text by which a state knows its recipe (declared in recipe.h). Nothing is left out: two builds whose
// defaults differ write two texts.
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/train/recipe.h"

namespace ropelab::train {
namespace {

// 17 digits name a double exactly.
std::string Exact(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

std::string Listed(const std::vector<double>& values) {
  return absl::StrJoin(values, ",", [](std::string* out, double value) { out->append(Exact(value)); });
}

std::string Listed(const std::vector<std::pair<int64_t, int64_t>>& heads) {
  return absl::StrJoin(heads, ",", [](std::string* out, const std::pair<int64_t, int64_t>& head) {
    absl::StrAppend(out, "L", head.first, "H", head.second);
  });
}

class RecipeLines {
 public:
  void Add(const char* name, const std::string& value) { absl::StrAppend(&text_, name, "=", value, "\n"); }
  void Add(const char* name, int64_t value) { Add(name, absl::StrCat(value)); }
  void Add(const char* name, double value) { Add(name, Exact(value)); }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

void AddShape(RecipeLines& lines, const ModelShape& shape) {
  lines.Add("shape.hidden", shape.hidden);
  lines.Add("shape.layers", shape.layers);
  lines.Add("shape.heads", shape.heads);
  lines.Add("shape.kv_heads", shape.kv_heads);
  lines.Add("shape.head_dim", shape.head_dim);
  lines.Add("shape.intermediate", shape.intermediate);
  lines.Add("shape.max_positions", shape.max_positions);
  lines.Add("shape.rope_theta", shape.rope_theta);
  lines.Add("shape.norm_eps", shape.norm_eps);
}

void AddHeads(RecipeLines& lines, const HeadPressure& heads) {
  lines.Add("heads.dropout", Listed(heads.dropout));
  lines.Add("heads.gaze", heads.gaze);
  lines.Add("heads.free", Listed(heads.free));
  lines.Add("heads.start", heads.start);
  lines.Add("heads.warmup", heads.warmup);
}

void AddAdamW(RecipeLines& lines, const AdamWRule& rule) {
  lines.Add("adamw.rate", rule.rate);
  lines.Add("adamw.warmup", rule.warmup);
  lines.Add("adamw.last_share", rule.last_share);
  lines.Add("adamw.beta1", rule.beta1);
  lines.Add("adamw.beta2", rule.beta2);
  lines.Add("adamw.epsilon", rule.epsilon);
  lines.Add("adamw.weight_decay", rule.weight_decay);
  lines.Add("adamw.clip", rule.clip);
}

}  // namespace

std::string CanonicalRecipeText(const Recipe& recipe) {
  RecipeLines lines;
  lines.Add("name", recipe.name);
  lines.Add("seed", static_cast<int64_t>(recipe.seed));
  lines.Add("dtype", recipe.dtype);
  lines.Add("products", recipe.products);
  AddShape(lines, recipe.shape);
  lines.Add("vocabulary", recipe.vocabulary);
  lines.Add("tokenizer_sentences", recipe.tokenizer_sentences);
  lines.Add("steps", recipe.steps);
  lines.Add("tokens_per_step", recipe.tokens_per_step);
  lines.Add("answer_weight", recipe.answer_weight);
  AddHeads(lines, recipe.heads);
  AddAdamW(lines, recipe.adamw);
  lines.Add("curriculum.lengths", absl::StrJoin(recipe.curriculum.lengths, ","));
  lines.Add("curriculum.pass", recipe.curriculum.pass);
  lines.Add("curriculum.every", recipe.curriculum.every);
  lines.Add("curriculum.samples", recipe.curriculum.samples);
  lines.Add("mix.spans", recipe.mix.spans);
  lines.Add("mix.plain", recipe.mix.plain);
  lines.Add("mix.generated", recipe.mix.generated);
  lines.Add("mix.noise", recipe.mix.noise);
  lines.Add("checkpoints", absl::StrJoin(recipe.checkpoints, ","));
  return lines.Take();
}

}  // namespace ropelab::train
