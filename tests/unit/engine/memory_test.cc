// What the forward passes allocate at most, counted beneath libtorch, against what they say.
#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <new>

#include "tests/unit/engine/made_model.h"
#include "worker/engine/decode_session.h"
#include "worker/engine/decoder.h"
#include "worker/engine/edited_weights.h"
#include "worker/engine/generation.h"

namespace ropelab::engine {
namespace {

std::atomic<int64_t> held{0}, most{0};

// Keeps each block's size in front of it.
class CountingAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) const override {
    void* block = std::aligned_alloc(kFront, (bytes + 2 * kFront - 1) / kFront * kFront);
    if (block == nullptr) throw std::bad_alloc();
    *static_cast<int64_t*>(block) = static_cast<int64_t>(bytes);
    const int64_t now = held += static_cast<int64_t>(bytes);
    for (int64_t seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    void* memory = static_cast<char*>(block) + kFront;
    return {memory, memory, &Free, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Free; }

 private:
  static constexpr size_t kFront = 64;
  static void Free(void* memory) {
    void* block = static_cast<char*>(memory) - kFront;
    held -= *static_cast<int64_t*>(block);
    std::free(block);
  }
};

class MemoryBounds : public testing::Test {
 protected:
  MemoryBounds() { c10::SetCPUAllocator(&counting_, 1); }
  ~MemoryBounds() override {
    at::set_num_threads(1);
    c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), 1);
  }
  // The most that `work` holds beyond what was held before.
  template <typename Work>
  static int64_t Peak(const Work& work) {
    const int64_t before = held;
    most = before;
    work();
    return most - before;
  }
  // Every part that takes memory: norms before and after, biases, soft caps, q/k norms.
  static formats::ModelConfig Everything() {
    formats::ModelConfig config = SmallConfig();
    config.qkv_bias = config.output_bias = config.mlp_bias = true;
    config.norm_placement = formats::NormPlacement::kBeforeAndAfter;
    config.norm_adds_one = true;
    config.query_key_norm = formats::QueryKeyNorm::kAllHeads;
    config.embedding_scale = 6;
    config.attention_soft_cap = config.final_soft_cap = 5;
    config.activation = formats::Activation::kGeluTanh;
    return config;
  }
  // Which part is the largest decides where the peak lies.
  static std::vector<formats::ModelConfig> Shapes() {
    formats::ModelConfig wide = Everything(), heads = Everything(), mlp = Everything(),
                         vocabulary = Everything();
    wide.hidden_size = 320;
    heads.query_heads = heads.kv_heads = 20;
    mlp.intermediate_size = 700;
    vocabulary.vocabulary = 3000;
    return {SmallConfig(), Everything(), wide, heads, mlp, vocabulary};
  }

  CountingAllocator counting_;
};

TEST_F(MemoryBounds, APromptStaysUnderForwardBytes) {
  Observer nobody;
  for (const formats::ModelConfig& config : Shapes()) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const model::LoadedModel model = MadeModel(config, dtype);
      for (const int threads : {1, 2}) {
        if (threads == 2 && (dtype != at::kFloat || config.hidden_size != 320)) continue;
        at::set_num_threads(threads);
        for (const int64_t tokens : {30, 300}) {
          for (const int64_t rows : {int64_t{0}, tokens}) {
            ForwardOptions options;
            for (int64_t i = 0; i < rows; ++i) options.logit_rows.push_back(i);
            const std::vector<int32_t> ids(static_cast<size_t>(tokens), 7);
            const int64_t peak = Peak([&] { ASSERT_TRUE(Forward(model, ids, options, nobody).ok()); });
            EXPECT_LE(peak, ForwardBytes(model, tokens, rows, threads))
                << "d " << config.hidden_size << " H " << config.query_heads << " m "
                << config.intermediate_size << " V " << config.vocabulary << " " << dtype << " threads "
                << threads << " tokens " << tokens << " rows " << rows;
            EXPECT_GE(8 * peak, ForwardBytes(model, tokens, rows, threads));
          }
        }
      }
    }
  }
}

TEST_F(MemoryBounds, ASessionStaysUnderItsBytes) {
  for (const formats::ModelConfig& config : Shapes()) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const model::LoadedModel model = MadeModel(config, dtype);
      for (const int64_t capacity : {5, 300}) {
        std::array<int32_t, kDecodeRows> ids;
        ids.fill(3);
        const int64_t peak = Peak([&] {
          DecodeSession session(model, capacity);
          for (int64_t i = 0; i < 5; ++i) session.Step(ids);
        });
        EXPECT_LE(peak, DecodeSession::Bytes(model, capacity))
            << "d " << config.hidden_size << " H " << config.query_heads << " m " << config.intermediate_size
            << " V " << config.vocabulary << " " << dtype << " capacity " << capacity;
      }
    }
  }
}

TEST_F(MemoryBounds, AnswersStayUnderTheirBytes) {
  const auto progress = [] { return absl::OkStatus(); };
  for (const formats::ModelConfig& config : Shapes()) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const model::LoadedModel model = MadeModel(config, dtype);
      for (const int64_t tokens : {20, 300}) {
        for (const size_t count : {size_t{1}, size_t{11}}) {
          // The first layer's edits share nothing; every kind of edit, those of weights among them.
          std::vector<HeadEdits> edits(count);
          const LowRanks ranks = {{{0, Projection::kQuery, 1}, 1}, {{1, Projection::kKey, 0}, 1}};
          EditedLayers layers;
          std::vector<Condition> conditions;
          int64_t bytes = AnswerGreedilyBytes(model, tokens, static_cast<int64_t>(count), 6, 1);
          for (size_t c = 0; c < count; ++c) {
            HeadEdit edit;
            edit.kind = c % 3 == 0 ? EditKind::kUnrotate : EditKind::kScaleDims;
            edit.head = static_cast<int64_t>(c % 4);
            edit.dims = {0, 2};
            edits[c] = {edit, HeadEdit{EditKind::kZeroHead, 1, 2, {}}};
            conditions.push_back({&edits[c], c % 4 == 1 ? &layers : nullptr});
            bytes += 2 * OwnKeyBytes(edits[c], config, tokens + 6);
          }
          const int64_t edited = Peak([&] {
            for (int64_t layer = 0; layer < 2; ++layer) layers[layer] = LowRankLayer(model, layer, ranks);
          });
          const std::vector<int32_t> ids(static_cast<size_t>(tokens), 7);
          const int64_t peak = Peak([&] {
            ASSERT_TRUE(AnswerGreedily(model, ids, conditions, {6, {}}, progress).ok());
          });
          EXPECT_LE(peak, bytes) << "d " << config.hidden_size << " H " << config.query_heads << " m "
                                 << config.intermediate_size << " V " << config.vocabulary << " " << dtype
                                 << " tokens " << tokens << " conditions " << count;
          EXPECT_GE(12 * peak, bytes) << "d " << config.hidden_size << " H " << config.query_heads << " "
                                      << dtype << " tokens " << tokens << " conditions " << count;
          EXPECT_GT(edited, 0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ropelab::engine
