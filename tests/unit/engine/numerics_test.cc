#include "worker/engine/numerics.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>

#include "common/sha256.h"
#include "worker/engine/shared_objects.h"
#include "worker/engine/threads.h"

namespace ropelab::engine {
namespace {

std::string Ingredient(const NumericsClass& numerics, const std::string& name) {
  for (const std::string& line : numerics.ingredients) {
    if (line.starts_with(name + "=")) return line.substr(name.size() + 1);
  }
  return "absent";
}

TEST(NumericsClass, IsTheSameTwiceAndHashesItsLines) {
  SetThreads(1);
  const auto first = ComputeNumericsClass("cpu", 1), second = ComputeNumericsClass("cpu", 1);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->ingredients, second->ingredients);
  std::string text;
  for (const std::string& line : first->ingredients) text += line + "\n";
  EXPECT_EQ(first->hash, Sha256Hex(text).substr(0, 16));
}

TEST(NumericsClass, NamesWhatComputes) {
  SetThreads(1);
  const auto numerics = ComputeNumericsClass("cpu", 1);
  ASSERT_TRUE(numerics.ok()) << numerics.status();
  EXPECT_EQ(Ingredient(*numerics, "engine"), kEngineVersion);
  EXPECT_EQ(Ingredient(*numerics, "device"), "cpu");
  for (const char* library : {"libtorch_cpu", "libm.so", "libc.so", "sgemm"}) {
    EXPECT_NE(Ingredient(*numerics, library).find("build-id"), std::string::npos) << library;
  }
  EXPECT_EQ(Ingredient(*numerics, "probe").size(), 16u);
}

TEST(NumericsClass, ChangesWithTheThreadsAndWithASettingThatChoosesCode) {
  SetThreads(1);
  const std::string one = ComputeNumericsClass("cpu", 1)->hash;
  SetThreads(2);
  EXPECT_NE(ComputeNumericsClass("cpu", 2)->hash, one);
  SetThreads(1);
  setenv("OPENBLAS_CORETYPE", "Nehalem", 1);
  EXPECT_NE(ComputeNumericsClass("cpu", 1)->hash, one);
  unsetenv("OPENBLAS_CORETYPE");
}

TEST(NumericsClass, RefusesADeviceThatIsNotThere) {
  EXPECT_FALSE(ComputeNumericsClass("abacus", 1).ok());
}

TEST(SharedObjects, SayNoneForWhatIsNotLoaded) {
  EXPECT_EQ(LoadedObject("libnosuchthing"), "none");
  EXPECT_EQ(ObjectOfSymbol("no_such_symbol_anywhere"), "none");
}

}  // namespace
}  // namespace ropelab::engine
