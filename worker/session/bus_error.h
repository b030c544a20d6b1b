// A mapped weight file that shrinks or vanishes is a SIGBUS. Nothing of the process can be trusted after it,
// so the handler says which file and which task and ends the process; its supervisor starts it again.
#pragma once

#include <string>

namespace ropelab::session {

inline constexpr int kBusErrorExit = 3;

void InstallBusErrorHandler();
// What runs now, for the handler's message. At most 255 bytes are kept.
void SetBusErrorContext(const std::string& what);

}  // namespace ropelab::session
