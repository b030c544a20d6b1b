// What a QueryKeyProfile allocates at most, counted beneath libtorch, against what it says.
#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/unit/engine/made_model.h"
#include "tests/unit/measure/list_recorder.h"
#include "tests/unit/measure/query_key_request.h"

namespace ropelab::measure {
namespace {

std::atomic<int64_t> held{0}, most{0};

// A block's size stands in front of it.
class Counter : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) const override {
    char* block = static_cast<char*>(std::aligned_alloc(kFront, (bytes + 2 * kFront - 1) / kFront * kFront));
    if (block == nullptr) throw std::bad_alloc();
    *reinterpret_cast<int64_t*>(block) = static_cast<int64_t>(bytes);
    const int64_t now = held += static_cast<int64_t>(bytes);
    int64_t seen = most;
    while (seen < now && !most.compare_exchange_weak(seen, now)) {
    }
    return {block + kFront, block + kFront, &Free, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Free; }

 private:
  static constexpr size_t kFront = 64;
  static void Free(void* memory) {
    char* block = static_cast<char*>(memory) - kFront;
    held -= *reinterpret_cast<int64_t*>(block);
    std::free(block);
  }
};

class QueryKeyMemory : public testing::Test {
 protected:
  QueryKeyMemory() { c10::SetCPUAllocator(&counter_, 1); }
  ~QueryKeyMemory() override {
    at::set_num_threads(threads_);
    c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), 1);
  }
  const int threads_ = at::get_num_threads();
  Counter counter_;
};

TEST_F(QueryKeyMemory, StaysUnderWhatIsSaid) {
  formats::ModelConfig wide = engine::SmallConfig(), heads = engine::SmallConfig();
  wide.hidden_size = 450;
  heads.head_dim = 96;
  for (const formats::ModelConfig& config : {engine::SmallConfig(), wide, heads}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const model::LoadedModel model = engine::MadeModel(config, dtype);
      for (const size_t tokens : {size_t{40}, size_t{400}}) {
        for (const auto view :
             {v1::HiddenView::UNSPECIFIED, v1::HiddenView::FIRST_COORDINATES, v1::HiddenView::PCA}) {
          std::vector<int32_t> ids(tokens);
          for (size_t i = 0; i < tokens; ++i) ids[i] = static_cast<int32_t>(i * i % 90);
          v1::Measurement request = QueryKeyRequest({ids, ids}, 0.95, v1::HiddenStage::NORMED);
          if (view != v1::HiddenView::UNSPECIFIED) NameHeads(request, {{0, 1}, {1, 0}, {1, 2}}, 300, view);
          at::set_num_threads(tokens == 400 && view == v1::HiddenView::PCA ? 2 : 1);
          const int64_t said = ActivationBytes(request, model).value_or(0), before = held;
          most = before;
          ListRecorder recorder;
          ASSERT_TRUE(Measure(request, &model, {said}, recorder).ok());
          const int64_t peak = most - before;
          EXPECT_LE(peak, said) << "d " << config.hidden_size << " D " << config.head_dim << " " << dtype
                                << " tokens " << tokens << " view " << view;
          EXPECT_GE(16 * peak, said);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ropelab::measure
