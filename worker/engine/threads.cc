#include "worker/engine/threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <thread>

namespace ropelab::engine {

int AvailableThreads() {
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) return std::max(1, CPU_COUNT(&mask));
  return std::max(1u, std::thread::hardware_concurrency());
}

void SetThreads(int threads) {
  at::set_num_threads(threads);
  // OpenBLAS keeps a number of its own; with OpenMP the two are one, with pthreads it would start with every
  // processor.
  const auto set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  if (set != nullptr) set(threads);
}

}  // namespace ropelab::engine
