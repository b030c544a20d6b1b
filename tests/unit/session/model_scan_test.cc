#include "worker/session/model_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/formats/temporary_directory.h"

namespace ropelab::session {
namespace {

using ::testing::HasSubstr;

TEST(NoModelsAdvice, NamesARootThatIsItselfAModel) {
  const ropelab::testing::TemporaryDirectory place;
  place.Write("config.json", "{}");
  EXPECT_THAT(NoModelsAdvice({place.path()}), HasSubstr("is itself a model"));
}

TEST(NoModelsAdvice, SaysWhatAModelsFolderHolds) {
  const ropelab::testing::TemporaryDirectory place;
  const std::string advice = NoModelsAdvice({place.path()});
  EXPECT_THAT(advice, HasSubstr(place.path()));
  EXPECT_THAT(advice, HasSubstr("config.json"));
  EXPECT_THAT(NoModelsAdvice({}), HasSubstr("--models"));
}

}  // namespace
}  // namespace ropelab::session
