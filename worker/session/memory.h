// Memory of this process and of the machine or control group that it may use, in bytes.
#pragma once

#include <cstdint>

namespace ropelab::session {

int64_t ResidentBytes();
// The smaller of the machine's memory and the control group's limit; 0 when neither is known.
int64_t UsableBytes();

}  // namespace ropelab::session
