#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <iostream>

#include "client/run.h"

namespace {

int64_t TerminalWidth(int descriptor) {
  if (isatty(descriptor) == 0) {
    return 0;
  }
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

int main(int argc, char** argv) {
  // A reader that has seen enough ends the command quietly, as it ends cat; a parent may have set this to be
  // ignored.
  std::signal(SIGPIPE, SIG_DFL);
  ropelab::client::Console console{std::cout, std::cerr, TerminalWidth(STDOUT_FILENO),
                                   TerminalWidth(STDERR_FILENO)};
  return static_cast<int>(ropelab::client::Run({argv + 1, argv + argc}, console));
}
