#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

#include "tests/unit/engine/fixtures.h"
#include "tests/unit/measure/list_recorder.h"
#include "worker/engine/decoder.h"
#include "worker/measure/prompts.h"

namespace ropelab::measure {
namespace {

using engine::FixtureModel;
using engine::LoadFixture;

v1::Measurement Request(int64_t count, int64_t tokens, double temperature) {
  v1::Measurement measurement;
  v1::Sampling& sampling = *measurement.mutable_sampling();
  sampling.mutable_samples()->set_count(count);
  sampling.set_seed(42);
  sampling.set_tokens(tokens);
  sampling.set_temperature(temperature);
  sampling.set_bos_token_id(1);
  sampling.set_vocabulary(512);
  return measurement;
}

std::vector<TokenIds> Samples(const v1::Measurement& request, const model::LoadedModel& model) {
  ListRecorder recorder;
  const auto outcome = Measure(request, &model, {}, recorder);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  std::vector<TokenIds> samples;
  for (const v1::Reading& reading : recorder.readings) {
    EXPECT_EQ(reading.sampled_tokens().sample(), static_cast<int64_t>(samples.size()));
    samples.emplace_back(reading.sampled_tokens().ids().ids().begin(),
                         reading.sampled_tokens().ids().ids().end());
  }
  EXPECT_EQ(outcome->fed_ids_digest, FedIdsDigest(samples));
  return samples;
}

TEST(Sampling, ASampleIsTheSameAloneAndAmongEight) {
  ROPELAB_NEED_FIXTURE("stories260K");
  const auto model = LoadFixture("stories260K");
  const std::vector<TokenIds> eight = Samples(Request(8, 200, 1.0), *model);
  ASSERT_EQ(eight.size(), 8u);
  for (int64_t count : {1, 3}) {
    const std::vector<TokenIds> fewer = Samples(Request(count, 200, 1.0), *model);
    for (int64_t s = 0; s < count; ++s) EXPECT_EQ(fewer[s], eight[s]);
  }
  for (int s = 1; s < 8; ++s) EXPECT_NE(eight[s], eight[0]);
  for (const TokenIds& ids : eight) {
    EXPECT_EQ(ids.size(), 200u);
    EXPECT_EQ(ids[0], 1);
  }
}

TEST(Sampling, GreedyTokensAreTheArgmaxOfTheWholePromptsLogits) {
  ROPELAB_NEED_FIXTURE("stories260K");
  const auto model = LoadFixture("stories260K");
  const TokenIds ids = Samples(Request(1, 120, 0.0), *model)[0];
  engine::ForwardOptions options;
  options.logit_rows.resize(ids.size());
  std::iota(options.logit_rows.begin(), options.logit_rows.end(), 0);
  engine::Observer nobody;
  const auto logits = engine::Forward(*model, ids, options, nobody);
  ASSERT_TRUE(logits.ok());
  const at::Tensor best = logits->argmax(1);
  for (size_t t = 0; t + 1 < ids.size(); ++t)
    EXPECT_EQ(ids[t + 1], best[static_cast<int64_t>(t)].item<int64_t>()) << t;
}

TEST(Sampling, DrawsAreThoseOfTheModelsDistribution) {
  ROPELAB_NEED_FIXTURE("stories260K");
  const auto model = LoadFixture("stories260K");
  // The first token after BOS of sample s: inverse of the cumulated softmax at the first double of numpy's
  // stream.
  const double uniforms[] = {0.4269192325220025, 0.5062880860120154,  0.41465276872090395,
                             0.7870582350294607, 0.5765468785332801,  0.48108476471822514,
                             0.9001781379309771, 0.048975707715831374};
  engine::ForwardOptions options;
  options.logit_rows = {0};
  engine::Observer nobody;
  const at::Tensor logits = *engine::Forward(*model, TokenIds{1}, options, nobody);
  const at::Tensor cumulated = at::softmax(logits[0].to(at::kDouble), 0).cumsum(0);
  const std::vector<TokenIds> samples = Samples(Request(8, 2, 1.0), *model);
  for (int s = 0; s < 8; ++s) {
    EXPECT_EQ(samples[s][1], cumulated.le(uniforms[s]).sum().item<int64_t>()) << s;
  }
}

TEST(Sampling, EightSamplesOfTheWholeContextTakeNotASecondsWorthOfOverhead) {
  ROPELAB_NEED_FIXTURE("stories260K");
  const auto model = LoadFixture("stories260K");
  const auto start = std::chrono::steady_clock::now();
  Samples(Request(8, 512, 1.0), *model);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  std::cout << "8 x 512 tokens: " << taken.count() << " s\n";
  EXPECT_LT(taken.count(), 5);  // about 0.5 s on a machine that does nothing else
}

TEST(Sampling, RefusesWhatTheModelCannotDraw) {
  ROPELAB_NEED_FIXTURE("stories260K");
  const auto model = LoadFixture("stories260K");
  const auto message = [&](const v1::Measurement& request) {
    ListRecorder recorder;
    const auto status = Measure(request, model.get(), {}, recorder).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message(Request(1, 513, 1)), testing::HasSubstr("1 to 512"));
  EXPECT_THAT(message(Request(9, 10, 1)), testing::HasSubstr("aligned block"));
  EXPECT_THAT(message(Request(1, 10, -1)), testing::HasSubstr("temperature is -1"));
  v1::Measurement request = Request(1, 10, 1);
  request.mutable_sampling()->set_bos_token_id(512);
  EXPECT_THAT(message(request), testing::HasSubstr("token id 512"));
  request.mutable_sampling()->set_bos_token_id(1);
  request.mutable_sampling()->set_vocabulary(513);
  EXPECT_THAT(message(request), testing::HasSubstr("513"));
}

}  // namespace
}  // namespace ropelab::measure
