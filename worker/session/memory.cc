#include "worker/session/memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace ropelab::session {

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  statm >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

int64_t UsableBytes() {
  int64_t bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    int64_t limit = 0;
    if (file >> limit && limit > 0) bytes = bytes > 0 ? std::min(bytes, limit) : limit;
  }
  return std::max<int64_t>(bytes, 0);
}

}  // namespace ropelab::session
