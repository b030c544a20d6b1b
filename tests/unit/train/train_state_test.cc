#include "worker/train/train_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <vector>

namespace ropelab::train {
namespace {

using testing::HasSubstr;

Recipe SmallRecipe() {
  Recipe recipe;
  recipe.text = "{\"seed\":3}";
  recipe.steps = 8;
  recipe.shape = {16, 1, 2, 1, 8, 16, 64, 10000, 1e-5};
  recipe.curriculum.lengths = {96, 128};
  return recipe;
}

// A model with an optimizer that has something to remember.
struct Learner {
  Learner(const Recipe& recipe, uint64_t seed)
      : model(recipe.shape, 300, seed, at::kFloat), optimizer(recipe.adamw, Tensors()) {
    const at::NoGradGuard no_gradients;
    for (at::Tensor mean : optimizer.first()) mean.fill_(static_cast<double>(seed) + 0.25);
    for (at::Tensor mean : optimizer.second()) mean.fill_(static_cast<double>(seed) + 0.5);
  }
  std::vector<at::Tensor> Tensors() const {
    std::vector<at::Tensor> tensors;
    for (const auto& [name, tensor] : model.Parameters()) tensors.push_back(tensor);
    return tensors;
  }

  TrainableModel model;
  AdamW optimizer;
};

class TrainStateTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string out =
        testing::TempDir() + "state_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(out);
    auto folder = OutputFolder::Claim(out, "tiny");
    ASSERT_TRUE(folder.ok()) << folder.status();
    folder_.emplace(*std::move(folder));
  }
  absl::Status Save(const TrainState& state) const {
    return SaveState(*folder_, recipe_, origin_, state, saved_.model, saved_.optimizer);
  }
  absl::StatusOr<TrainState> Load() const {
    return LoadState(*folder_, recipe_, origin_, loaded_.model, loaded_.optimizer);
  }
  // What Load says, which names the file and ends with the way to begin again.
  std::string Refusal(absl::StatusCode code) const {
    const absl::Status status = Load().status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(status.message(), HasSubstr((folder_->state() / "model.safetensors").string()));
    EXPECT_THAT(status.message(), HasSubstr(folder_->BeginAgain()));
    return std::string(status.message());
  }

  Recipe recipe_ = SmallRecipe();
  TrainingOrigin origin_ = {2, "0123456789abcdef", "beef"};
  const TrainState state_ = {4, 1, 1000, "step\n4\n", "name\ntiny-0004\n"};
  Learner saved_{recipe_, 1}, loaded_{recipe_, 2};
  std::optional<OutputFolder> folder_;
};

TEST_F(TrainStateTest, IsNotFoundAtFirst) {
  EXPECT_EQ(Load().status().code(), absl::StatusCode::kNotFound);
}

TEST_F(TrainStateTest, ComesBackAsItWasSaved) {
  ASSERT_TRUE(Save(state_).ok());
  const auto state = Load();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->step, 4);
  EXPECT_EQ(state->stage, 1);
  EXPECT_EQ(state->tokens, 1000);
  EXPECT_EQ(state->curve, state_.curve);
  EXPECT_EQ(state->checkpoints, state_.checkpoints);
  for (size_t i = 0; i < saved_.Tensors().size(); ++i) {
    EXPECT_TRUE(loaded_.Tensors()[i].equal(saved_.Tensors()[i])) << i;
    EXPECT_TRUE(loaded_.optimizer.first()[i].equal(saved_.optimizer.first()[i])) << i;
    EXPECT_TRUE(loaded_.optimizer.second()[i].equal(saved_.optimizer.second()[i])) << i;
  }
}

TEST_F(TrainStateTest, RefusesAnotherRecipe) {
  ASSERT_TRUE(Save(state_).ok());
  recipe_.text = "{\"seed\":4}";
  EXPECT_THAT(Refusal(absl::StatusCode::kFailedPrecondition), HasSubstr("was made with another recipe"));
}

TEST_F(TrainStateTest, RefusesAnotherNumberOfThreads) {
  ASSERT_TRUE(Save(state_).ok());
  origin_.threads = 3;
  EXPECT_THAT(Refusal(absl::StatusCode::kFailedPrecondition),
              HasSubstr("was made with --threads 2, and this run has --threads 3; give --threads 2, "));
}

TEST_F(TrainStateTest, RefusesAnotherNumericsClass) {
  ASSERT_TRUE(Save(state_).ok());
  origin_.numerics = "fedcba9876543210";
  EXPECT_THAT(Refusal(absl::StatusCode::kFailedPrecondition),
              HasSubstr("numerics class 0123456789abcdef, and this run has fedcba9876543210"));
}

TEST_F(TrainStateTest, RefusesAnotherTokenizer) {
  ASSERT_TRUE(Save(state_).ok());
  origin_.tokenizer = "cafe";
  EXPECT_THAT(Refusal(absl::StatusCode::kFailedPrecondition), HasSubstr("beef, and this run has cafe"));
}

TEST_F(TrainStateTest, RefusesNumbersThatTheRecipeCannotHave) {
  const struct {
    int64_t step, stage, tokens;
    const char* what;
  } cases[] = {{9, 1, 1000, "its step is 9, and this recipe's is from 0 to 8"},
               {-1, 1, 1000, "its step is -1"},
               {4, 2, 1000, "its stage is 2, and this recipe's is from 0 to 1"},
               {4, -1, 1000, "its stage is -1"},
               {4, 1, -1, "its count of tokens is -1"}};
  for (const auto& damaged : cases) {
    ASSERT_TRUE(Save({damaged.step, damaged.stage, damaged.tokens, "", ""}).ok());
    EXPECT_THAT(Refusal(absl::StatusCode::kDataLoss), HasSubstr(damaged.what));
  }
}

TEST_F(TrainStateTest, RefusesATruncatedFile) {
  ASSERT_TRUE(Save(state_).ok());
  const std::filesystem::path file = folder_->state() / "model.safetensors";
  const uintmax_t size = std::filesystem::file_size(file);
  for (const uintmax_t left : {size - 1, size / 2, uintmax_t{9}, uintmax_t{0}}) {
    std::filesystem::resize_file(file, left);
    EXPECT_THAT(Refusal(absl::StatusCode::kDataLoss), HasSubstr("is damaged")) << left;
  }
}

TEST_F(TrainStateTest, RefusesAStateOfAnotherShape) {
  ASSERT_TRUE(Save(state_).ok());
  recipe_.shape.intermediate = 24;
  const Learner wider(recipe_, 1);
  const absl::Status status = LoadState(*folder_, recipe_, origin_, wider.model, wider.optimizer).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(status.message(), HasSubstr("mlp"));
}

}  // namespace
}  // namespace ropelab::train
