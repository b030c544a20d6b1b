#include "worker/train/recipe.h"

#include <gtest/gtest.h>

#include "tests/unit/train/trained_text.h"

namespace ropelab::train {
namespace {

std::string Problem(const std::string& json) {
  const auto recipe = ReadRecipe(WriteTestFile("recipe.json", json));
  return recipe.ok() ? "" : std::string(recipe.status().message());
}

TEST(RecipeTest, ReadsTheOneThatShips) {
  const auto recipe = ReadRecipe(std::string(ROPELAB_SOURCE_DIR) + "/models/needle-tiny/recipe.json");
  ASSERT_TRUE(recipe.ok()) << recipe.status();
  EXPECT_EQ(recipe->name, "needle-tiny");
  EXPECT_GE(recipe->shape.layers, 4);
  EXPECT_GE(recipe->shape.heads, 8);
  EXPECT_EQ(recipe->shape.head_dim, 32);
  EXPECT_GE(recipe->checkpoints.size(), 12u);
}

TEST(RecipeTest, FillsInDefaults) {
  const auto recipe = ReadRecipe(WriteTestFile("recipe.json", R"({"steps": 7, "adamw": {"last_share": 0}})"));
  ASSERT_TRUE(recipe.ok()) << recipe.status();
  EXPECT_EQ(recipe->steps, 7);
  EXPECT_EQ(recipe->adamw.last_share, 0);
  EXPECT_EQ(recipe->adamw.rate, Recipe().adamw.rate);
  EXPECT_EQ(recipe->curriculum.lengths, Recipe().curriculum.lengths);
}

TEST(RecipeTest, RefusesByNameWhatIsWrong) {
  const auto has = [](const std::string& json, const std::string& part) {
    EXPECT_NE(Problem(json).find(part), std::string::npos) << json << " gave: " << Problem(json);
  };
  has(R"({"step": 7})", "step is a field that a recipe does not have");
  has(R"({"adamw": {"lr": 1}})", "adamw.lr is a field that a recipe does not have");
  has(R"({"dtype": "int8"})", "dtype is int8");
  has(R"({"shape": {"heads": 8, "kv_heads": 3}})", "shape.kv_heads is 3; it must divide heads, 8");
  has(R"({"shape": {"head_dim": 31}})", "shape.head_dim is 31");
  has(R"({"curriculum": {"lengths": [128, 64]}})", "curriculum.lengths is 128, 64; entries ascend");
  has(R"({"curriculum": {"lengths": [64, 4096]}})", "curriculum.lengths is 4096");
  has(R"({"curriculum": {"every": 50}, "checkpoints": [75], "steps": 100})", "checkpoints is 75");
  has(R"({"steps": 100, "checkpoints": [150]})", "checkpoints is 150");
  has(R"({"name": "../x"})", "name is");
  has("[]", "recipe.json");
}

}  // namespace
}  // namespace ropelab::train
