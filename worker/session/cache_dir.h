// Where a worker and its tools keep what is costly to find out again.
#pragma once

#include <string>

namespace ropelab::session {

// $XDG_CACHE_HOME/ropelab, else $HOME/.cache/ropelab, else a folder of this user's under /tmp. Not made here.
std::string DefaultCacheDir();

}  // namespace ropelab::session
