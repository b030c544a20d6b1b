// A test that needs files from beside the checkout says that it is skipped where they are absent. In CI (the
// variable CI is set) they must be there, and the same test fails.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

#define ROPELAB_ABSENT(reason)                                                \
  do {                                                                        \
    if (std::getenv("CI") != nullptr) FAIL() << "absent in CI: " << (reason); \
    GTEST_SKIP() << "skipped: " << (reason);                                  \
  } while (false)
