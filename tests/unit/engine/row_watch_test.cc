#include "worker/engine/row_watch.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "tests/unit/engine/made_model.h"
#include "worker/engine/decoder.h"
#include "worker/engine/tensor_recorder.h"

namespace ropelab::engine {
namespace {

using Place = std::tuple<int64_t, int64_t, size_t>;  // layer, head, place

// Two layers, one of which slides; three strips' worth of blocks.
model::LoadedModel SlidingModel() {
  formats::ModelConfig config = SmallConfig();
  config.sliding_window = {0, 20};
  return MadeModel(config);
}

std::vector<int32_t> Prompt() {
  std::vector<int32_t> ids;
  for (int i = 0; i < 200; ++i) ids.push_back((i * i + 3 * i) % 90);
  return ids;
}

std::map<Place, std::vector<float>> Watched(const model::LoadedModel& model,
                                            const std::vector<int64_t>& rows) {
  std::mutex mutex;
  std::map<Place, std::vector<float>> seen;
  RowWatch watch(
      rows,
      [&](const WatchedRow& row) {
        // From position 0 on, as an inspection gives them.
        std::vector<float> whole(static_cast<size_t>(row.first_key), 0.0f);
        whole.insert(whole.end(), row.probabilities.begin(), row.probabilities.end());
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(seen.emplace(Place{row.layer, row.head, row.place}, whole).second) << "seen twice";
      },
      [] { return absl::OkStatus(); });
  ForwardOptions options;
  options.outputs = false;
  EXPECT_TRUE(Forward(model, Prompt(), options, watch).ok());
  return seen;
}

TEST(RowWatch, SeesEveryRowOfEveryHeadOnceAsAnInspectionDoes) {
  const model::LoadedModel model = SlidingModel();
  const std::vector<int64_t> rows = {0, 19, 63, 64, 65, 150, 199};
  const auto inspected = InspectPrompt(model, Prompt(), {"attn_probs"}, {});
  ASSERT_TRUE(inspected.ok()) << inspected.status();
  const at::Tensor probabilities = inspected->at("attn_probs").contiguous();  // [L, H, T, T]
  const int threads = at::get_num_threads();
  for (const int count : {1, 3}) {
    at::set_num_threads(count);
    const auto seen = Watched(model, rows);
    ASSERT_EQ(seen.size(), 2u * 4u * rows.size());
    for (const auto& [place, whole] : seen) {
      const auto [layer, head, index] = place;
      const int64_t row = rows[index];
      ASSERT_EQ(static_cast<int64_t>(whole.size()), row + 1);
      const float* expected = probabilities[layer][head][row].data_ptr<float>();
      EXPECT_EQ(std::memcmp(whole.data(), expected, whole.size() * sizeof(float)), 0)
          << "L" << layer << "H" << head << " row " << row;
    }
  }
  at::set_num_threads(threads);
}

TEST(RowWatch, EndsThePassWithWhatTheLayersWatchSays) {
  const model::LoadedModel model = SlidingModel();
  int layers = 0;
  RowWatch watch(
      {5}, [](const WatchedRow& row) { EXPECT_EQ(row.layer, 0); },
      [&] { return ++layers == 1 ? absl::CancelledError("enough") : absl::OkStatus(); });
  EXPECT_EQ(Forward(model, Prompt(), {}, watch).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(layers, 1);
}

}  // namespace
}  // namespace ropelab::engine
