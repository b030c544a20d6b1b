#include "worker/train/training_loop.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "tests/unit/train/trained_text.h"
#include "worker/formats/checkpoint.h"
#include "worker/formats/json_text.h"

namespace ropelab::train {
namespace {

constexpr char kRecipe[] = R"({
  "name": "tiny", "seed": 3, "steps": 8, "tokens_per_step": 256, "vocabulary": 400, "tokenizer_sentences": 300,
  "heads": {"dropout": [0.2, 0.1], "gaze": 1, "free": ["L1H0"], "start": 1, "warmup": 4},
  "shape": {"hidden": 32, "layers": 2, "heads": 4, "kv_heads": 2, "head_dim": 8, "intermediate": 48},
  "adamw": {"warmup": 3}, "curriculum": {"lengths": [96, 128], "every": 2, "samples": 2, "pass": 0},
  "checkpoints": [0, 4, 8]
})";

class TrainingLoopTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto recipe = ReadRecipe(WriteTestFile("loop_recipe.json", kRecipe));
    ASSERT_TRUE(recipe.ok()) << recipe.status();
    recipe_ = *recipe;
    out_ = testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(out_);
  }

  absl::Status Run(const std::string& out, std::optional<int64_t> stop_after) {
    steps_.clear();
    return Train(recipe_, {out, stop_after}, [&](const TrainingProgress& at) { steps_.push_back(at.step); });
  }
  static std::string Bytes(const std::filesystem::path& path) {
    const auto text = formats::ReadWholeFile(path.string(), size_t{1} << 26);
    EXPECT_TRUE(text.ok()) << text.status();
    return text.value_or("");
  }

  Recipe recipe_;
  std::string out_;
  std::vector<int64_t> steps_;
};

TEST_F(TrainingLoopTest, GoesOnToTheSameBytesAfterAKill) {
  ASSERT_TRUE(Run(out_ + "/whole", std::nullopt).ok());
  // Step 5 is lost: the state is that of step 4.
  const absl::Status first = Run(out_ + "/parts", 5);
  ASSERT_TRUE(first.ok()) << first;
  EXPECT_FALSE(std::filesystem::exists(out_ + "/parts/tiny/model.safetensors"));
  const absl::Status second = Run(out_ + "/parts", std::nullopt);
  ASSERT_TRUE(second.ok()) << second;
  EXPECT_EQ(steps_.front(), 6);
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(out_ + "/whole")) {
    if (!entry.is_regular_file()) continue;
    const auto relative = std::filesystem::relative(entry.path(), out_ + "/whole");
    EXPECT_EQ(Bytes(entry.path()), Bytes(std::filesystem::path(out_) / "parts" / relative)) << relative;
    ++files;
  }
  // The model's three files, its curve and evaluation, three checkpoints of three files and their table, the
  // state.
  EXPECT_EQ(files, 3 + 2 + 3 * 3 + 1 + 1);
}

TEST_F(TrainingLoopTest, LeavesWhatIsFinishedAlone) {
  recipe_.steps = 2;
  recipe_.checkpoints = {};
  ASSERT_TRUE(Run(out_, std::nullopt).ok());
  std::filesystem::remove(out_ + "/tiny/evaluation.csv");
  ASSERT_TRUE(Run(out_, std::nullopt).ok());
  EXPECT_TRUE(steps_.empty());
  EXPECT_FALSE(std::filesystem::exists(out_ + "/tiny/evaluation.csv"));
}

TEST_F(TrainingLoopTest, WritesCheckpointsThatDiffer) {
  ASSERT_TRUE(Run(out_, std::nullopt).ok());
  const std::string table = Bytes(out_ + "/checkpoints/checkpoints.csv");
  EXPECT_EQ(table.substr(0, table.find('\n')), "name,step,tokens,length");
  EXPECT_NE(table.find("\ntiny-0000,0,0,96\ntiny-0004,4,"), std::string::npos) << table;
  std::vector<std::string> hashes;
  for (const char* name :
       {"checkpoints/tiny-0000", "checkpoints/tiny-0004", "checkpoints/tiny-0008", "tiny"}) {
    const auto hash = formats::WeightsHash(out_ + "/" + name, "", [](int64_t, int64_t) { return true; });
    ASSERT_TRUE(hash.ok()) << hash.status();
    hashes.push_back(*hash);
  }
  EXPECT_NE(hashes[0], hashes[1]);
  EXPECT_NE(hashes[1], hashes[2]);
  EXPECT_EQ(hashes[2], hashes[3]);
}

TEST_F(TrainingLoopTest, RefusesAStateOfAnotherRecipe) {
  ASSERT_TRUE(Run(out_, 2).ok());
  recipe_.text += " ";
  const absl::Status status = Run(out_, std::nullopt);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_NE(status.message().find("another recipe"), std::string::npos) << status;
}

TEST_F(TrainingLoopTest, LearnsTheText) {
  recipe_.steps = 30;
  recipe_.checkpoints = {};
  recipe_.adamw.rate = 0.01;
  double first = 0, last = 0;
  ASSERT_TRUE(Train(recipe_, {out_, std::nullopt}, [&](const TrainingProgress& at) {
                if (at.step == 2) first = at.text_loss;
                last = at.text_loss;
              }).ok());
  EXPECT_NEAR(first, std::log(400.0), 0.3);  // nothing known: the vocabulary's logarithm
  EXPECT_LT(last, first - 0.4);  // the commonest tokens, at least
}

}  // namespace
}  // namespace ropelab::train
