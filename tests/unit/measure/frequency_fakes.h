// Requests of the two frequency measurements, and what they are compared with: queries and keys as tensors,
// and the definitions of EXPERIMENTS.md section 4 over them in double.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/measure/list_recorder.h"
#include "worker/engine/decoder.h"
#include "worker/engine/observer.h"
#include "worker/model/loaded_model.h"

namespace ropelab::measure {

struct FrequencyHead {
  int32_t layer, head;
  std::optional<int64_t> offset = std::nullopt;
};
using Prompts = std::vector<std::vector<int32_t>>;

template <typename Request>
void FillRequest(Request& request, const Prompts& prompts, const std::vector<FrequencyHead>& heads) {
  request.mutable_prompts()->mutable_samples()->set_count(static_cast<int64_t>(prompts.size()));
  for (const auto& ids : prompts) {
    request.mutable_prompts()->mutable_given()->add_prompts()->mutable_ids()->Add(ids.begin(), ids.end());
  }
  for (const FrequencyHead& head : heads) {
    v1::MeasuredHead& named = *request.add_heads();
    named.set_layer(head.layer);
    named.set_head(head.head);
    if (head.offset) named.set_offset(*head.offset);
  }
}

inline v1::Measurement ProfileRequest(const Prompts& prompts, const std::vector<FrequencyHead>& heads,
                                      const std::vector<int64_t>& rows = {}) {
  v1::Measurement measurement;
  v1::FrequencyProfile& profile = *measurement.mutable_frequency_profile();
  FillRequest(profile, prompts, heads);
  profile.set_skip_first(4);
  profile.mutable_rows()->Add(rows.begin(), rows.end());
  return measurement;
}

inline ListRecorder Measured(const v1::Measurement& measurement, const model::LoadedModel& model) {
  ListRecorder recorder;
  const auto outcome = Measure(measurement, &model, {}, recorder);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(recorder.done, recorder.total);
  return recorder;
}

// Fits by the means that a profile of the same prompts gives.
inline v1::Measurement FitsRequest(const Prompts& prompts, const std::vector<FrequencyHead>& heads,
                                   const model::LoadedModel& model) {
  v1::Measurement measurement;
  v1::FrequencyFits& fits = *measurement.mutable_frequency_fits();
  FillRequest(fits, prompts, heads);
  for (const v1::Reading& reading : Measured(ProfileRequest(prompts, heads), model).readings) {
    v1::MeanVectors& means = *fits.add_means();
    means = reading.head_frequencies().means();
    for (double& value : *means.mutable_query()) value /= static_cast<double>(prompts.size());
    for (double& value : *means.mutable_key()) value /= static_cast<double>(prompts.size());
  }
  return measurement;
}

// Queries and keys of every layer of a short prompt, [L, H or G, N, D]: names as the fixtures have them.
inline std::map<std::string, at::Tensor> ProjectedOf(const model::LoadedModel& model,
                                                     const std::vector<int32_t>& ids) {
  struct Keeper : engine::Observer {
    void Projected(const engine::ProjectedRows& rows) override {
      layers["q_pre"].push_back(rows.query_pre.transpose(0, 1).clone());
      layers["k_pre"].push_back(rows.key_pre.transpose(0, 1).clone());
      layers["q_rot"].push_back(rows.query_rot.transpose(0, 1).clone());
      layers["k_rot"].push_back(rows.key_rot.transpose(0, 1).clone());
    }
    std::map<std::string, std::vector<at::Tensor>> layers;
  };
  EXPECT_LE(static_cast<int64_t>(ids.size()), engine::kRowChunk) << "one call per layer";
  Keeper keeper;
  EXPECT_TRUE(engine::Forward(model, ids, {.logit_rows = {}, .outputs = false}, keeper).ok());
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, layers] : keeper.layers) tensors[name] = at::stack(layers);
  return tensors;
}

// One head's vectors, pairs in the order of `places`: [N, P, 2] double, the lower dimension first.
struct PairTensors {
  at::Tensor query_pre, key_pre, query_rot, key_rot;
};
inline PairTensors PairsOf(const std::map<std::string, at::Tensor>& tensors, const FrequencyHead& head,
                           const std::vector<int64_t>& places) {
  const int64_t heads_per_group = tensors.at("q_rot").size(1) / tensors.at("k_rot").size(1);
  const auto pairs = [&](const std::string& name, int64_t of) {
    const at::Tensor vectors = tensors.at(name)[head.layer][of].to(at::kDouble);
    const int64_t half = vectors.size(1) / 2;
    const at::Tensor order = at::tensor(at::ArrayRef<int64_t>(places), at::kLong);
    return at::stack({vectors.narrow(1, 0, half).index_select(1, order),
                      vectors.narrow(1, half, half).index_select(1, order)},
                     2);
  };
  const int64_t group = head.head / heads_per_group;
  return {pairs("q_pre", head.head), pairs("k_pre", group), pairs("q_rot", head.head), pairs("k_rot", group)};
}

// InP of every pair, query and key, [P, N, N]; entries above the diagonal as well.
inline at::Tensor ProductsOf(const PairTensors& pairs) {
  return at::matmul(pairs.query_rot.transpose(0, 1), pairs.key_rot.transpose(0, 1).transpose(1, 2));
}

// To 1e-5 of the largest expected number.
template <typename Numbers>
void ExpectVector(const Numbers& ours, const at::Tensor& expected, const std::string& what) {
  ASSERT_EQ(static_cast<int64_t>(ours.size()), expected.numel()) << what;
  const at::Tensor flat = expected.contiguous().flatten();
  const double* values = flat.data_ptr<double>();
  const double largest = flat.abs().max().item<double>();
  for (int i = 0; i < static_cast<int>(flat.numel()); ++i) {
    EXPECT_NEAR(ours[i], values[i], 1e-5 * largest) << what << " " << i;
  }
}

// Everything that a profile of one prompt says about one head.
inline void ExpectHeadFrequencies(const v1::HeadFrequencies& said, const PairTensors& pairs,
                                  const FrequencyHead& head, int64_t skip_first) {
  const int64_t tokens = pairs.query_rot.size(0);
  const std::string name = "L" + std::to_string(head.layer) + "H" + std::to_string(head.head);
  EXPECT_EQ(said.layer(), head.layer);
  EXPECT_EQ(said.head(), head.head);
  EXPECT_EQ(said.prompts(), 1);
  ExpectVector(said.means().query(), pairs.query_pre.mean(0), name + " mean query");
  ExpectVector(said.means().key(), pairs.key_pre.mean(0), name + " mean key");
  const at::Tensor products = ProductsOf(pairs).tril();
  const double entries = static_cast<double>(tokens * (tokens + 1)) / 2;
  ExpectVector(said.mean_abs_inp(), products.abs().sum(at::IntArrayRef{1, 2}) / entries, name + " |InP|");
  ExpectVector(said.mean_inp(), products.sum(at::IntArrayRef{1, 2}) / entries, name + " InP");
  if (!head.offset) {
    EXPECT_EQ(said.inp_at_lag_size(), 0);
    return;
  }
  const at::Tensor diagonal = products.diagonal(-*head.offset, 1, 2);
  ExpectVector(said.inp_at_lag(), diagonal.narrow(1, skip_first, diagonal.size(1) - skip_first).mean(1),
               name + " at lag");
}

}  // namespace ropelab::measure
