#include "worker/session/bus_error.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace ropelab::session {
namespace {

char context[256];  // read by the handler; torn text would be no worse than none

// Everything below runs in a signal handler: no allocation, no lock, no stdio.

void Say(const char* text, size_t length) {
  while (length > 0) {
    const ssize_t written = write(STDERR_FILENO, text, length);
    if (written <= 0) return;
    text += written;
    length -= static_cast<size_t>(written);
  }
}

void Say(const char* text) {
  Say(text, strlen(text));
}

uintptr_t ParseHex(const char*& text) {
  uintptr_t value = 0;
  for (;; ++text) {
    if (*text >= '0' && *text <= '9') {
      value = value * 16 + static_cast<uintptr_t>(*text - '0');
    } else if (*text >= 'a' && *text <= 'f') {
      value = value * 16 + static_cast<uintptr_t>(*text - 'a' + 10);
    } else {
      return value;
    }
  }
}

// Prints the path of a /proc/self/maps line when `address` is in its range.
bool SayIfMapped(const char* line, uintptr_t address) {
  const char* cursor = line;
  const uintptr_t first = ParseHex(cursor);
  if (*cursor != '-') return false;
  ++cursor;
  const uintptr_t end = ParseHex(cursor);
  if (address < first || address >= end) return false;
  const char* path = strchr(cursor, '/');
  Say(path != nullptr ? path : "memory without a file");
  return true;
}

void SayMappedFile(uintptr_t address) {
  const int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    Say("unknown file");
    return;
  }
  static char line[4608];
  size_t length = 0;
  static char block[4096];
  ssize_t got = 0;
  bool found = false;
  while (!found && (got = read(file, block, sizeof(block))) > 0) {
    for (ssize_t i = 0; i < got && !found; ++i) {
      if (block[i] != '\n') {
        if (length + 1 < sizeof(line)) line[length++] = block[i];
        continue;
      }
      line[length] = '\0';
      length = 0;
      found = SayIfMapped(line, address);
    }
  }
  if (!found) Say("unknown file");
  close(file);
}

void OnBusError(int, siginfo_t* info, void*) {
  Say("ropelab-worker: SIGBUS, a mapped file shrank or cannot be read: ");
  SayMappedFile(reinterpret_cast<uintptr_t>(info->si_addr));
  Say("; running: ");
  Say(context[0] != '\0' ? context : "no task");
  Say("\n");
  _exit(kBusErrorExit);
}

}  // namespace

void InstallBusErrorHandler() {
  struct sigaction action = {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

void SetBusErrorContext(const std::string& what) {
  const size_t length = std::min(what.size(), sizeof(context) - 1);
  memcpy(context, what.data(), length);
  context[length] = '\0';
}

}  // namespace ropelab::session
