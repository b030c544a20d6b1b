#include "worker/session/threads.h"

#include <ATen/Parallel.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace ropelab::session {
namespace {

// Its value is the process id, which survives exec and is nobody else's: a value inherited from elsewhere
// does not count.
constexpr std::string_view kMarker = "ROPELAB_TUNED_PID";

bool Names(const std::string& setting, std::string_view name) {
  return setting.size() > name.size() && setting[name.size()] == '=' &&
         std::string_view(setting).substr(0, name.size()) == name;
}

const std::string* Find(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string& setting : environment) {
    if (Names(setting, name)) return &setting;
  }
  return nullptr;
}

void Put(std::vector<std::string>& environment, std::string_view name, const std::string& value) {
  std::erase_if(environment, [&](const std::string& setting) { return Names(setting, name); });
  environment.push_back(std::string(name) + "=" + value);
}

int ParseThreads(const char* text, int fallback) {
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  return end != text && *end == '\0' && value >= 1 && value <= 4096 ? static_cast<int>(value) : fallback;
}

bool HasAvx512() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("fma");
}

}  // namespace

int AvailableCpus() {
  // Grown until the kernel's mask fits: a fixed cpu_set_t ends at 1024 CPUs.
  for (int cpus = 1024; cpus <= 1 << 17; cpus *= 2) {
    cpu_set_t* mask = CPU_ALLOC(cpus);
    if (mask == nullptr) return 1;
    const size_t size = CPU_ALLOC_SIZE(cpus);
    const int failed = sched_getaffinity(0, size, mask);
    const int count = failed == 0 ? CPU_COUNT_S(size, mask) : 0;
    CPU_FREE(mask);
    if (failed == 0) return count > 0 ? count : 1;
    if (errno != EINVAL) return 1;
  }
  return 1;
}

int ThreadsOfCommandLine(int argc, const char* const* argv, int fallback) {
  constexpr std::string_view kFlag = "--threads";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == kFlag) return i + 1 < argc ? ParseThreads(argv[i + 1], fallback) : fallback;
    if (argument.substr(0, kFlag.size()) == kFlag && argument.size() > kFlag.size() &&
        argument[kFlag.size()] == '=') {
      return ParseThreads(argv[i] + kFlag.size() + 1, fallback);
    }
  }
  return fallback;
}

std::vector<std::string> TunedEnvironment(const std::vector<std::string>& environment, int threads,
                                          bool avx512) {
  std::vector<std::string> tuned = environment;
  Put(tuned, "OMP_NUM_THREADS", std::to_string(threads));
  Put(tuned, "OPENBLAS_NUM_THREADS", std::to_string(threads));
  const std::pair<std::string_view, std::string> defaults[] = {
      // Workers that share cores must not spin while they wait.
      {"OMP_WAIT_POLICY", "passive"},
      // Large temporaries are kept by malloc; mapping and clearing them again is half the time of a block.
      {"MALLOC_MMAP_MAX_", "0"},
      {"MALLOC_TRIM_THRESHOLD_", "200000000000"},
      // ATen stops at AVX2 unless told.
      {"ATEN_CPU_CAPABILITY", avx512 ? "avx512" : ""},
  };
  for (const auto& [name, value] : defaults) {
    if (!value.empty() && Find(tuned, name) == nullptr) Put(tuned, name, value);
  }
  return tuned;
}

void ReexecuteTuned(int argc, char** argv, char** envp) {
  std::vector<std::string> environment;
  for (char** entry = envp; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  const std::string pid = std::to_string(getpid());
  const std::string* marker = Find(environment, kMarker);
  if (marker != nullptr && marker->substr(kMarker.size() + 1) == pid) return;

  const int threads = ThreadsOfCommandLine(argc, argv, AvailableCpus());
  std::vector<std::string> tuned = TunedEnvironment(environment, threads, HasAvx512());
  bool same = true;
  for (const std::string& setting : tuned) {
    const std::string* before = Find(environment, std::string_view(setting).substr(0, setting.find('=')));
    if (before == nullptr || *before != setting) same = false;
  }
  if (same) return;
  Put(tuned, kMarker, pid);

  // By its own path, so that process lists show the program's name and not "exe".
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  if (length <= 0) return;
  path[length] = '\0';
  std::vector<char*> pointers;
  for (std::string& setting : tuned) pointers.push_back(setting.data());
  pointers.push_back(nullptr);
  execve(path, argv, pointers.data());
}

void UseThreads(int threads) {
  at::set_num_threads(threads);
}

}  // namespace ropelab::session
