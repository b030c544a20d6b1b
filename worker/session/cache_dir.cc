#include "worker/session/cache_dir.h"

#include <unistd.h>

#include <cstdlib>

namespace ropelab::session {

std::string DefaultCacheDir() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/') {
    return std::string(cache) + "/ropelab";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') {
    return std::string(home) + "/.cache/ropelab";
  }
  return "/tmp/ropelab-cache-" + std::to_string(getuid());
}

}  // namespace ropelab::session
