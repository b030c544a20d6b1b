#include "common/version.h"

#include "absl/strings/str_cat.h"
#include "common/build_stamp.h"

namespace ropelab {

std::string Version() {
  return ROPELAB_VERSION_TEXT;
}
std::string GitCommit() {
  return ROPELAB_GIT_COMMIT_TEXT;
}
std::string Build() {
  return absl::StrCat("ropelab ", Version(), " (", GitCommit(), ")");
}

}  // namespace ropelab
