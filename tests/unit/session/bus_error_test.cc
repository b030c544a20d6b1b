#include "worker/session/bus_error.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace ropelab::session {
namespace {

void TouchAMappedFileThatShrank(const std::string& path) {
  InstallBusErrorHandler();
  SetBusErrorContext("task 7 attempt 2 (slash_profile) on model tiny");
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (ftruncate(file, 8192) != 0) _exit(99);
  const auto* bytes = static_cast<const volatile char*>(mmap(nullptr, 8192, PROT_READ, MAP_SHARED, file, 0));
  if (ftruncate(file, 0) != 0) _exit(99);
  const char touched = bytes[5000];
  (void)touched;
}

TEST(BusErrorDeathTest, NamesTheFileAndTheTaskAndEndsTheProcess) {
  const std::string path = testing::TempDir() + "/weights_that_shrink.safetensors";
  EXPECT_EXIT(
      TouchAMappedFileThatShrank(path), testing::ExitedWithCode(kBusErrorExit),
      "SIGBUS.*weights_that_shrink.safetensors.*running: task 7 attempt 2 .slash_profile. on model tiny");
}

}  // namespace
}  // namespace ropelab::session
