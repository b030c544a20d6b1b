#include "worker/train/training_loop.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>

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

  absl::StatusOr<int64_t> Run(const std::string& out, std::optional<int64_t> stop_after) {
    steps_.clear();
    return Train(recipe_, {out, stop_after, threads_, "a class"}, [&](const TrainingProgress& at) {
      EXPECT_GT(at.steps_per_minute, 0);
      steps_.push_back(at.step);
    });
  }
  // Paths of the files in a folder and below, relative to it.
  static std::set<std::string> FilesOf(const std::string& folder) {
    std::set<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) files.insert(std::filesystem::relative(entry.path(), folder).string());
    }
    return files;
  }
  static std::string Bytes(const std::filesystem::path& path) {
    const auto text = formats::ReadWholeFile(path.string(), size_t{1} << 26);
    EXPECT_TRUE(text.ok()) << text.status();
    return text.value_or("");
  }

  Recipe recipe_;
  std::string out_;
  int64_t threads_ = 1;
  std::vector<int64_t> steps_;
};

TEST_F(TrainingLoopTest, GoesOnToTheSameBytesAfterAKill) {
  const auto whole = Run(out_ + "/whole", std::nullopt);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(*whole, 8);
  // Step 5 is lost: the state is that of step 4.
  const auto first = Run(out_ + "/parts", 5);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(*first, 5);
  EXPECT_FALSE(std::filesystem::exists(out_ + "/parts/tiny/model.safetensors"));
  const auto second = Run(out_ + "/parts", std::nullopt);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(*second, 8);
  EXPECT_EQ(steps_.front(), 6);
  const std::set<std::string> files = FilesOf(out_ + "/whole");
  EXPECT_EQ(FilesOf(out_ + "/parts"), files);
  for (const std::string& file : files) {
    EXPECT_EQ(Bytes(out_ + "/whole/" + file), Bytes(out_ + "/parts/" + file)) << file;
  }
  // The model's three files, its curve and evaluation, three checkpoints of three files and their table, the
  // state and its lock.
  EXPECT_EQ(files.size(), 3u + 2 + 3 * 3 + 1 + 2);
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

TEST_F(TrainingLoopTest, GoesOnAfterAKillBeforeTheFirstEvaluation) {
  ASSERT_TRUE(Run(out_, 1).ok());
  EXPECT_TRUE(std::filesystem::exists(out_ + "/checkpoints/checkpoints.csv"));
  const auto steps = Run(out_, 2);
  ASSERT_TRUE(steps.ok()) << steps.status();
  EXPECT_EQ(Bytes(out_ + "/checkpoints/checkpoints.csv"), "name,step,tokens,length\ntiny-0000,0,0,96\n");
}

TEST_F(TrainingLoopTest, RefusesAStateOfAnotherRecipe) {
  ASSERT_TRUE(Run(out_, 2).ok());
  recipe_.text += " ";
  const absl::Status status = Run(out_, std::nullopt).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_NE(status.message().find("another recipe"), std::string::npos) << status;
}

TEST_F(TrainingLoopTest, RefusesAStateOfAnotherNumberOfThreads) {
  ASSERT_TRUE(Run(out_, 1).ok());
  threads_ = 2;
  const absl::Status status = Run(out_, std::nullopt).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_NE(status.message().find("give --threads 1"), std::string::npos) << status;
}

TEST_F(TrainingLoopTest, RefusesToWriteOverAModelThatIsNotItsOwn) {
  std::filesystem::create_directories(out_ + "/tiny");
  std::filesystem::copy_file(testing::TempDir() + "loop_recipe.json", out_ + "/tiny/model.safetensors");
  const absl::Status status = Run(out_, std::nullopt).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_EQ(FilesOf(out_), (std::set<std::string>{"tiny/model.safetensors"}));
}

TEST_F(TrainingLoopTest, RefusesPromptsWithoutRoomForANeedleBeforeAStep) {
  recipe_.vocabulary = kFixedTokens;
  const absl::Status status = Run(out_, std::nullopt).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_NE(status.message().find("curriculum.lengths"), std::string::npos) << status;
  EXPECT_TRUE(steps_.empty());
  EXPECT_EQ(FilesOf(out_), (std::set<std::string>{"state/lock"}));
}

TEST_F(TrainingLoopTest, NamesTheShapeForWhichTheMemoryRanOut) {
  recipe_.shape.hidden = int64_t{1} << 40;
  const absl::Status status = Run(out_, std::nullopt).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_NE(status.message().find("hidden 1099511627776"), std::string::npos) << status;
}

TEST_F(TrainingLoopTest, NeverSavesAGradientThatIsNotFinite) {
  recipe_.answer_weight = 1e30;  // the loss stays below fp32's largest number, the squared gradient does not
  const absl::Status status = Run(out_, std::nullopt).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_NE(status.message().find("the gradient of step 1 is not finite"), std::string::npos) << status;
  recipe_.answer_weight = 1;
  EXPECT_TRUE(Run(out_, 2).ok());
}

TEST_F(TrainingLoopTest, LearnsTheText) {
  recipe_.steps = 30;
  recipe_.checkpoints = {};
  recipe_.adamw.rate = 0.01;
  double first = 0, last = 0;
  ASSERT_TRUE(Train(recipe_, {out_, std::nullopt, 1, "a class"}, [&](const TrainingProgress& at) {
                if (at.step == 2) first = at.text_loss;
                last = at.text_loss;
              }).ok());
  EXPECT_NEAR(first, std::log(400.0), 0.3);  // nothing known: the vocabulary's logarithm
  EXPECT_LT(last, first - 0.4);              // the commonest tokens, at least
}

}  // namespace
}  // namespace ropelab::train
