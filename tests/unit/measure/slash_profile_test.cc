// Slash scores against plain loops in double over attention that another implementation computed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <google/protobuf/util/message_differencer.h>

#include <cmath>

#include "tests/unit/engine/fixtures.h"
#include "tests/unit/measure/list_recorder.h"

namespace ropelab::measure {
namespace {

using engine::ExpectedTensors;
using engine::FixtureModel;
using engine::Ids;
using engine::LoadFixture;

v1::Measurement Request(const std::vector<std::vector<int32_t>>& prompts, int64_t first, int64_t last,
                        int64_t skip) {
  v1::Measurement measurement;
  v1::SlashProfile& profile = *measurement.mutable_slash_profile();
  profile.mutable_prompts()->mutable_samples()->set_count(static_cast<int64_t>(prompts.size()));
  for (const auto& ids : prompts) {
    profile.mutable_prompts()->mutable_given()->add_prompts()->mutable_ids()->Add(ids.begin(), ids.end());
  }
  profile.set_first_offset(first);
  profile.set_last_offset(last);
  profile.set_skip_first(skip);
  return measurement;
}

// EXPERIMENTS.md 1, word for word: mean over i of S[i, i - offset], i - offset >= skip.
double ScoreByLoop(const at::Tensor& s, int64_t offset, int64_t skip, bool common, int64_t last,
                   bool definition) {
  const auto a = s.accessor<float, 2>();
  double sum = 0;
  int64_t rows = 0;
  for (int64_t i = offset + skip; i < s.size(0); ++i) {
    if (common && i < last + skip) continue;
    sum += a[i][i - offset];
    ++rows;
  }
  return sum / static_cast<double>(definition ? s.size(0) - offset : rows);
}

void ExpectScores(const std::vector<v1::Reading>& readings, const at::Tensor& attention,
                  const v1::SlashProfile& profile) {
  int64_t seen = 0;
  for (const v1::Reading& reading : readings) {
    const v1::SlashBlock& block = reading.slash_block();
    for (int32_t h = 0; h < block.heads(); ++h) {
      for (int64_t o = 0; o < block.offsets(); ++o, ++seen) {
        const double expected =
            ScoreByLoop(attention[block.layer()][block.first_head() + h], block.first_offset() + o,
                        profile.skip_first(), profile.rows() == v1::Rows::COMMON, profile.last_offset(),
                        profile.denominator() == v1::Denominator::DEFINITION);
        const int index = static_cast<int>(h * block.offsets() + o);
        ASSERT_NEAR(block.mean(index), expected, 1e-6) << block.layer() << " " << h << " " << o;
        ASSERT_EQ(block.m2(index), 0.0);
      }
    }
  }
  EXPECT_EQ(seen,
            attention.size(0) * attention.size(1) * (profile.last_offset() - profile.first_offset() + 1));
}

class SlashProfileParity : public testing::TestWithParam<std::string> {};

TEST_P(SlashProfileParity, EveryOffsetIsTheMeanAlongItsDiagonal) {
  ROPELAB_NEED_FIXTURE(GetParam());
  const auto model = LoadFixture(GetParam());
  const auto expected = ExpectedTensors(GetParam());
  const std::vector<int32_t> ids = Ids(expected.at("input_ids"));
  for (const auto rows : {v1::Rows::ALL, v1::Rows::COMMON}) {
    for (const auto denominator : {v1::Denominator::KEPT, v1::Denominator::DEFINITION}) {
      if (rows == v1::Rows::COMMON && denominator == v1::Denominator::DEFINITION) continue;
      // Common rows of all offsets would be one row, and a single entry is only known to 5e-6: both sides are
      // fp32.
      v1::Measurement request = Request({ids}, 0, rows == v1::Rows::COMMON ? 30 : 59, 4);
      request.mutable_slash_profile()->set_rows(rows);
      request.mutable_slash_profile()->set_denominator(denominator);
      ListRecorder recorder;
      const auto outcome = Measure(request, model.get(), {}, recorder);
      ASSERT_TRUE(outcome.ok()) << outcome.status();
      ExpectScores(recorder.readings, expected.at("attn_probs"), request.slash_profile());
      EXPECT_EQ(recorder.done, recorder.total);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SlashProfileParity,
                         testing::Values("llama2_a", "llama3_a", "llama3bf16_a", "stories260K"));

TEST(SlashProfile, GivesMeanAndSquaredDeviationsOverPromptsOfDifferentLengths) {
  ROPELAB_NEED_FIXTURE("stories260K");
  const auto model = LoadFixture("stories260K");
  std::vector<int32_t> ids = Ids(ExpectedTensors("stories260K").at("input_ids"));
  const std::vector<std::vector<int32_t>> prompts = {
      ids, {ids.begin(), ids.begin() + 40}, {ids.begin() + 9, ids.end()}};
  std::vector<v1::SlashBlock> singles;
  for (const auto& prompt : prompts) {
    ListRecorder recorder;
    ASSERT_TRUE(Measure(Request({prompt}, 2, 20, 4), model.get(), {}, recorder).ok());
    singles.push_back(recorder.readings[3].slash_block());
  }
  ListRecorder recorder;
  ASSERT_TRUE(Measure(Request(prompts, 2, 20, 4), model.get(), {}, recorder).ok());
  const v1::SlashBlock& block = recorder.readings[3].slash_block();
  EXPECT_EQ(block.prompts(), 3);
  for (int i = 0; i < block.mean_size(); ++i) {
    const double a = singles[0].mean(i), b = singles[1].mean(i), c = singles[2].mean(i),
                 mean = (a + b + c) / 3;
    EXPECT_NEAR(block.mean(i), mean, 1e-15);
    EXPECT_NEAR(block.m2(i), (a - mean) * (a - mean) + (b - mean) * (b - mean) + (c - mean) * (c - mean),
                1e-15);
  }
}

TEST(SlashProfile, RepeatsItselfBitForBit) {
  ROPELAB_NEED_FIXTURE("stories260K");
  const auto model = LoadFixture("stories260K");
  v1::Measurement request = Request({}, 0, 300, 4);
  request.mutable_slash_profile()->mutable_prompts()->mutable_samples()->set_count(3);
  auto& uniform = *request.mutable_slash_profile()->mutable_prompts()->mutable_uniform();
  uniform.set_seed(42);
  uniform.set_tokens(400);
  uniform.set_vocabulary(512);
  ListRecorder first, second;
  const auto one = Measure(request, model.get(), {}, first), two = Measure(request, model.get(), {}, second);
  ASSERT_TRUE(one.ok() && two.ok()) << one.status();
  EXPECT_EQ(one->fed_ids_digest, two->fed_ids_digest);
  ASSERT_EQ(first.readings.size(), second.readings.size());
  for (size_t i = 0; i < first.readings.size(); ++i) {
    EXPECT_EQ(first.readings[i].SerializeAsString(), second.readings[i].SerializeAsString());
  }
}

TEST(SlashProfile, RefusesOffsetsThatLeaveNoRow) {
  ROPELAB_NEED_FIXTURE("llama2_a");
  const auto model = LoadFixture("llama2_a");
  ListRecorder recorder;
  const std::vector<int32_t> ids(10, 1);
  EXPECT_TRUE(Measure(Request({ids}, 0, 5, 4), model.get(), {}, recorder).ok());
  const auto beyond = Measure(Request({ids}, 0, 6, 4), model.get(), {}, recorder).status();
  EXPECT_EQ(beyond.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(beyond.message()), testing::HasSubstr("the largest offset is 5"));
  EXPECT_FALSE(Measure(Request({ids}, 3, 2, 0), model.get(), {}, recorder).ok());
  EXPECT_FALSE(Measure(Request({ids}, -1, 2, 0), model.get(), {}, recorder).ok());
  v1::Measurement both = Request({ids}, 0, 2, 4);
  both.mutable_slash_profile()->set_rows(v1::Rows::COMMON);
  both.mutable_slash_profile()->set_denominator(v1::Denominator::DEFINITION);
  EXPECT_EQ(Measure(both, model.get(), {}, recorder).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SlashProfile, StopsWhenTheLeaseIsGone) {
  ROPELAB_NEED_FIXTURE("stories260K");
  ListRecorder recorder;
  recorder.cancel_at_call = 2;
  const auto outcome = Measure(Request({std::vector<int32_t>(20, 1)}, 0, 5, 4),
                               LoadFixture("stories260K").get(), {}, recorder);
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(recorder.calls, 2);
  EXPECT_TRUE(recorder.readings.empty());
}

TEST(SlashProfile, IsRefusedWithFiguresWhereMemoryIsShort) {
  ROPELAB_NEED_FIXTURE("stories260K");
  const auto model = LoadFixture("stories260K");
  const v1::Measurement request = Request({std::vector<int32_t>(500, 1)}, 0, 400, 4);
  const auto needed = ActivationBytes(request, *model);
  ASSERT_TRUE(needed.ok());
  ListRecorder recorder;
  EXPECT_TRUE(Measure(request, model.get(), {*needed}, recorder).ok());
  const auto status = Measure(request, model.get(), {*needed - 1}, recorder).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("MiB"));
}

}  // namespace
}  // namespace ropelab::measure
