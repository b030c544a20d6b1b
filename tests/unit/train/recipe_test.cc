#include "worker/train/recipe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/train/trained_text.h"

namespace ropelab::train {
namespace {

std::string Problem(const std::string& json) {
  const auto recipe = ReadRecipe(WriteTestFile("recipe.json", json));
  return recipe.ok() ? "" : std::string(recipe.status().message());
}

std::string Text(const std::string& json) {
  const auto recipe = ReadRecipe(WriteTestFile("recipe.json", json));
  EXPECT_TRUE(recipe.ok()) << recipe.status();
  return recipe.ok() ? recipe->text : "";
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
  for (const char* name : {"../x", "a/b", ".a", "a,b", "a\\nseed=43", ""}) {
    has(absl::StrCat(R"({"name": ")", name, R"("})"), "it names the model's folder");
  }
  has(R"({"name": "state"})", "recipe.json: name is \"state\"; the folder of that name");
  has(R"({"name": "checkpoints"})", "recipe.json: name is \"checkpoints\"; the folder of that name");
  has(R"({"unknown": null})", "unknown is a field that a recipe does not have");
  has(R"({"mix": {"unknown": null}})", "mix.unknown is a field that a recipe does not have");
  has("[]", "recipe.json");
}

TEST(RecipeTest, SaysWhatEachFieldMayBe) {
  const auto has = [](const std::string& json, const std::string& part) {
    EXPECT_NE(Problem(json).find(part), std::string::npos) << json << " gave: " << Problem(json);
  };
  has(R"({"curriculum": {"lengths": ["a"]}})",
      "curriculum.lengths[0] is \"a\"; it must be a whole number from 64 to ");
  has(R"({"curriculum": {"lengths": 64}})", "curriculum.lengths is 64; it must be a list");
  has(R"({"checkpoints": [0, -5]})", "checkpoints[1] is -5; it must be a whole number from 0 to ");
  has(R"({"adamw": {"last_share": -1}})", "adamw.last_share is -1; it must be a number from 0 to 1");
  has(R"({"adamw": {"beta1": 1}})", "adamw.beta1 is 1; it must be a number from 0 to 0.9999999");
  has(R"({"steps": 1.5})", "steps is 1.5; it must be a whole number from 1 to 10000000");
  has(R"({"steps": "many"})", "steps is \"many\"; it must be a whole number");
  has(R"({"seed": 9007199254740993})", "seed is 9007199254740993; it must be a whole number");
  has(R"({"heads": {"dropout": [0.1]}})",
      "heads.dropout is a list of 1; it must have a number for each of the 4");
  has(R"({"heads": {"dropout": [0, 0, 0.5, 0]}})",
      "heads.dropout[2] is 0.5; it must be a number from 0 to 0.45");
  has(R"({"heads": {"free": ["L4H0"]}})", "heads.free is \"L4H0\"");
}

// What the file does not hold is not what is wrong with it.
TEST(RecipeTest, NamesTheFieldThatAMissingOneDoesNotFit) {
  const auto has = [](const std::string& json, const std::string& part) {
    EXPECT_NE(Problem(json).find(part), std::string::npos) << json << " gave: " << Problem(json);
  };
  has(R"({"shape": {"max_positions": 512}})",
      "shape.max_positions is 512; curriculum.lengths, left out, go up to 1024");
  has(R"({"shape": {"max_positions": 512}, "curriculum": {"lengths": [64, 1024]}})",
      "curriculum.lengths is 1024; entries are at most shape.max_positions, 512");
  has(R"({"shape": {"heads": 6}})", "shape.heads is 6; kv_heads, 4 where it is left out");
}

TEST(RecipeTest, RefusesWhatTheReaderOfModelsWould) {
  EXPECT_NE(Problem(R"({"shape": {"norm_eps": 0.2}})").find("shape.norm_eps is 0.2"), std::string::npos);
  EXPECT_EQ(Problem(R"({"shape": {"norm_eps": 0.1}})"), "");
}

TEST(RecipeTest, TakesWholeNumbersHoweverTheyAreWritten) {
  const auto recipe = ReadRecipe(WriteTestFile(
      "recipe.json",
      R"({"steps": 1e3, "seed": 7.0, "checkpoints": [5e1, 1000], "heads": {"dropout": [], "free": null}})"));
  ASSERT_TRUE(recipe.ok()) << recipe.status();
  EXPECT_EQ(recipe->steps, 1000);
  EXPECT_EQ(recipe->seed, 7u);
  EXPECT_EQ(recipe->checkpoints, (std::vector<int64_t>{50, 1000}));
  EXPECT_TRUE(recipe->heads.dropout.empty());
}

TEST(RecipeTest, OfOneMeaningHaveOneText) {
  const std::string text = Text("{}");
  EXPECT_EQ(text.substr(0, text.find("shape.layers")),
            "name=needle-tiny\nseed=42\ndtype=float16\nproducts=bfloat16\nshape.hidden=128\n");
  for (const char* same :
       {" {\n}\n", R"({"steps": 3000})", R"({"steps": 3e3})", R"({"shape": {"rope_theta": 10000}})",
        R"({"shape": {"rope_theta": 10000.0}})", R"({"adamw": {"rate": 0.002, "warmup": 100}})",
        R"({"adamw": {"warmup": 100, "rate": 2e-3}})", R"({"heads": {"dropout": [], "gaze": -0.0}})",
        R"({"checkpoints": null})"}) {
    EXPECT_EQ(Text(same), text) << same;
  }
  EXPECT_EQ(Text(R"({"heads": {"free": ["L1H2", "L0H3", "L1H2"]}})"),
            Text(R"({"heads": {"free": ["L0H3", "L1H2"]}})"));
}

// A line for every field: of whatever a recipe can set, another value gives another text.
TEST(RecipeTest, OfTwoMeaningsHaveTwoTexts) {
  std::set<std::string> texts = {Text("{}")};
  const std::vector<std::string> others = {R"({"name": "x"})",
                                           R"({"seed": 1})",
                                           R"({"dtype": "float32"})",
                                           R"({"products": "float32"})",
                                           R"({"shape": {"hidden": 64}})",
                                           R"({"shape": {"layers": 3}})",
                                           R"({"shape": {"heads": 4}})",
                                           R"({"shape": {"kv_heads": 2}})",
                                           R"({"shape": {"head_dim": 16}})",
                                           R"({"shape": {"intermediate": 64}})",
                                           R"({"shape": {"max_positions": 1024}})",
                                           R"({"shape": {"rope_theta": 10000.000000000002}})",
                                           R"({"shape": {"norm_eps": 1e-6}})",
                                           R"({"vocabulary": 700})",
                                           R"({"tokenizer_sentences": 5000})",
                                           R"({"steps": 2000})",
                                           R"({"tokens_per_step": 2048})",
                                           R"({"answer_weight": 2})",
                                           R"({"heads": {"dropout": [0, 0, 0, 0.1]}})",
                                           R"({"heads": {"gaze": 1}})",
                                           R"({"heads": {"free": ["L0H0"]}})",
                                           R"({"heads": {"start": 1}})",
                                           R"({"heads": {"warmup": 1}})",
                                           R"({"adamw": {"rate": 0.001}})",
                                           R"({"adamw": {"warmup": 1}})",
                                           R"({"adamw": {"last_share": 0}})",
                                           R"({"adamw": {"beta1": 0}})",
                                           R"({"adamw": {"beta2": 0}})",
                                           R"({"adamw": {"epsilon": 1e-9}})",
                                           R"({"adamw": {"weight_decay": 0}})",
                                           R"({"adamw": {"clip": 2}})",
                                           R"({"curriculum": {"lengths": [64, 128]}})",
                                           R"({"curriculum": {"pass": 1}})",
                                           R"({"curriculum": {"every": 25}})",
                                           R"({"curriculum": {"samples": 20}})",
                                           R"({"mix": {"spans": 0}})",
                                           R"({"mix": {"plain": 0}})",
                                           R"({"mix": {"generated": 0}})",
                                           R"({"mix": {"noise": 0}})",
                                           R"({"checkpoints": [50]})"};
  for (const std::string& other : others) EXPECT_TRUE(texts.insert(Text(other)).second) << other;
  const std::string text = Text("{}");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), static_cast<int64_t>(others.size()));
}

}  // namespace
}  // namespace ropelab::train
