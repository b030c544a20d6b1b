// Counts what libtorch holds on the CPU, beneath it, while an object lives. Once per test program at a time.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace ropelab::engine {

class CountedMemory : public c10::Allocator {
 public:
  CountedMemory() { c10::SetCPUAllocator(this, 1); }
  ~CountedMemory() override { c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), 1); }

  // The most bytes that `work` holds beyond what was held before.
  template <typename Work>
  static int64_t Peak(const Work& work) {
    const int64_t before = held_;
    most_ = before;
    work();
    return most_ - before;
  }

  // A block's size stands in front of it.
  c10::DataPtr allocate(size_t bytes) const override {
    char* block = static_cast<char*>(std::aligned_alloc(kFront, (bytes + 2 * kFront - 1) / kFront * kFront));
    if (block == nullptr) throw std::bad_alloc();
    *reinterpret_cast<int64_t*>(block) = static_cast<int64_t>(bytes);
    const int64_t now = held_ += static_cast<int64_t>(bytes);
    for (int64_t seen = most_; seen < now && !most_.compare_exchange_weak(seen, now);) {
    }
    return {block + kFront, block + kFront, &Free, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Free; }

 private:
  static constexpr size_t kFront = 64;
  static void Free(void* memory) {
    char* block = static_cast<char*>(memory) - kFront;
    held_ -= *reinterpret_cast<int64_t*>(block);
    std::free(block);
  }
  static inline std::atomic<int64_t> held_{0}, most_{0};
};

}  // namespace ropelab::engine
