// NeedleAttention from a request to its readings: what is fed, refused and said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/measure/list_recorder.h"
#include "tests/unit/measure/needle_request.h"
#include "tests/unit/measure/text_fakes.h"
#include "worker/measure/needle_prompts.h"
#include "worker/measure/needle_scores.h"

namespace ropelab::measure {
namespace {

using engine::MadeModel;
using testing::HasSubstr;

v1::Measurement Request(const v1::PromptBlock& block, const std::vector<v1::Metric::Value>& metrics) {
  v1::Measurement measurement;
  v1::NeedleAttention& request = *measurement.mutable_needle_attention();
  *request.mutable_prompts() = block;
  for (const auto metric : metrics) request.add_metrics(metric);
  request.set_span(v1::Span::CODE);
  return measurement;
}

const std::vector<v1::Metric::Value> kAll = {v1::Metric::ARGMAX, v1::Metric::MASS, v1::Metric::COPY_PAPER,
                                             v1::Metric::COPY_PAPER_PER_TOKEN, v1::Metric::COPY_WU};

class NeedleAttentionTest : public testing::Test {
 protected:
  absl::StatusOr<Outcome> Run(const v1::Measurement& request, ListRecorder& recorder) {
    return Measure(request, {&model_, tokenizer_.get()}, {}, recorder);
  }
  std::string Refusal(const v1::Measurement& request) {
    ListRecorder recorder;
    const absl::Status status = Run(request, recorder).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_TRUE(recorder.readings.empty());
    return std::string(status.message());
  }

  model::LoadedModel model_ = MadeModel(ByteConfig());
  const std::shared_ptr<const formats::Tokenizer> tokenizer_ = ByteTokenizer();
};

TEST_F(NeedleAttentionTest, SaysWhatEachSampleScoresByItself) {
  const v1::PromptBlock block = NeedleBlock(3);
  ListRecorder recorder;
  const auto outcome = Run(Request(block, kAll), recorder);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  ASSERT_EQ(recorder.readings.size(), 3u);
  EXPECT_EQ(recorder.done, 6);
  EXPECT_EQ(recorder.total, 6);
  const auto needles = RealiseNeedles(block.needle(), block.samples(), {&model_, tokenizer_.get()});
  ASSERT_TRUE(needles.ok()) << needles.status();
  std::vector<TokenIds> fed;
  for (size_t s = 0; s < 3; ++s) {
    const RealisedNeedle& needle = needles->at(s);
    const v1::NeedleHeads& said = recorder.readings[s].needle_heads();
    EXPECT_EQ(said.realised().SerializeAsString(), needle.facts.SerializeAsString());
    EXPECT_EQ(said.realised().sample(), 8 + static_cast<int64_t>(s));
    const auto forced = ForceAnswer(needle, *tokenizer_);
    ASSERT_TRUE(forced.ok());
    EXPECT_EQ(forced->ids.size(), needle.ids.size() + 6);  // a space and five letters
    fed.push_back(forced->ids);
    const auto alone = ScoreNeedle(model_, needle, *forced, {true, true, true, true, true, v1::Span::CODE},
                                   [] { return absl::OkStatus(); });
    ASSERT_TRUE(alone.ok());
    EXPECT_EQ(said.SerializeAsString(), alone->SerializeAsString());
  }
  EXPECT_EQ(outcome->fed_ids_digest, FedIdsDigest(fed));
}

TEST_F(NeedleAttentionTest, WithoutCopyMetricsThePromptAloneIsFed) {
  const v1::PromptBlock block = NeedleBlock(2);
  ListRecorder recorder;
  const auto outcome = Run(Request(block, {v1::Metric::MASS}), recorder);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  const auto needles = RealiseNeedles(block.needle(), block.samples(), {&model_, tokenizer_.get()});
  ASSERT_TRUE(needles.ok());
  EXPECT_EQ(outcome->fed_ids_digest, FedIdsDigest({needles->at(0).ids, needles->at(1).ids}));
  EXPECT_EQ(recorder.readings[1].needle_heads().mass_size(), 8);
  EXPECT_EQ(recorder.readings[1].needle_heads().copy_wu_size(), 0);
}

TEST_F(NeedleAttentionTest, RefusesWithTheSampleAndTheFigure) {
  EXPECT_THAT(Refusal(Request(NeedleBlock(1, 40), kAll)),
              testing::AllOf(HasSubstr("sample 8"), HasSubstr("needle and question alone are 72 tokens")));
  EXPECT_THAT(Refusal(Request(NeedleBlock(1, 512), kAll)),
              testing::AllOf(HasSubstr("sample 8"), HasSubstr("512")));  // and no room for the answer
  v1::PromptBlock uneven = NeedleBlock(2);
  uneven.mutable_samples()->set_count(3);
  EXPECT_THAT(Refusal(Request(uneven, kAll)), HasSubstr("3"));
  v1::PromptBlock other;
  other.mutable_samples()->set_count(1);
  other.mutable_given()->add_prompts()->add_ids(3);
  EXPECT_THAT(Refusal(Request(other, kAll)), HasSubstr("holds no needle"));
  EXPECT_THAT(Refusal(Request(NeedleBlock(1), {})), HasSubstr("metrics is empty"));
}

TEST_F(NeedleAttentionTest, StopsAtOnceWhenTheLeaseIsGone) {
  for (const int call : {1, 3}) {
    ListRecorder recorder;
    recorder.cancel_at_call = call;
    EXPECT_EQ(Run(Request(NeedleBlock(3), kAll), recorder).status().code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(recorder.calls, call);
    EXPECT_EQ(recorder.readings.size(), call == 1 ? 0u : 1u);
  }
}

TEST_F(NeedleAttentionTest, SaysMoreBytesForAForcedAnswer) {
  const int64_t prompt = *ActivationBytes(Request(NeedleBlock(3), {v1::Metric::ARGMAX}), model_);
  EXPECT_GT(*ActivationBytes(Request(NeedleBlock(3), kAll), model_), prompt);
  EXPECT_GT(prompt, 0);
}

}  // namespace
}  // namespace ropelab::measure
