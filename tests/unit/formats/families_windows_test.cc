#include "tests/unit/formats/config_text.h"

namespace ropelab::formats {
namespace {

using ::ropelab::unit::ExpectRefused;
using ::ropelab::unit::ReadWith;
using ::testing::ElementsAre;

constexpr char kSliding[] = "sliding_attention";
constexpr char kFull[] = "full_attention";

TEST(Windows, OfMistralAreOnEveryLayerUnlessNull) {
  EXPECT_THAT(ReadWith("mistral", {{"sliding_window", 16}})->sliding_window, ElementsAre(16, 16, 16, 16));
  EXPECT_THAT(ReadWith("mistral", {{"sliding_window", nullptr}})->sliding_window, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(ReadWith("mistral")->sliding_window, ElementsAre(4096, 4096, 4096, 4096));
}

TEST(Windows, OfQwenCountOnlyWhenSwitchedOnAndFromALayer) {
  for (const char* family : {"qwen2", "qwen3"}) {
    EXPECT_THAT(ReadWith(family, {{"sliding_window", 16}})->sliding_window, ElementsAre(0, 0, 0, 0));
    EXPECT_THAT(
        ReadWith(family, {{"sliding_window", 16}, {"use_sliding_window", false}, {"max_window_layers", 0}})
            ->sliding_window,
        ElementsAre(0, 0, 0, 0));
    EXPECT_THAT(
        ReadWith(family, {{"sliding_window", 16}, {"use_sliding_window", true}, {"max_window_layers", 1}})
            ->sliding_window,
        ElementsAre(0, 16, 16, 16));
    // Layers from 28 on, which these four are not.
    EXPECT_THAT(ReadWith(family, {{"sliding_window", 16}, {"use_sliding_window", true}})->sliding_window,
                ElementsAre(0, 0, 0, 0));
    EXPECT_THAT(ReadWith(family, {{"use_sliding_window", true}, {"max_window_layers", 3}})->sliding_window,
                ElementsAre(0, 0, 0, 4096));
    EXPECT_THAT(
        ReadWith(family,
                 {{"sliding_window", nullptr}, {"use_sliding_window", true}, {"max_window_layers", 0}})
            ->sliding_window,
        ElementsAre(0, 0, 0, 0));
  }
}

TEST(Windows, OfGemma2AreOnEvenLayers) {
  EXPECT_THAT(ReadWith("gemma2", {{"sliding_window", 16}})->sliding_window, ElementsAre(16, 0, 16, 0));
  EXPECT_THAT(ReadWith("gemma2")->sliding_window, ElementsAre(4096, 0, 4096, 0));
}

TEST(Windows, AreNoneWhereTheFamilyHasNone) {
  for (const char* family : {"llama", "gemma", "olmo2"}) {
    EXPECT_THAT(ReadWith(family, {{"sliding_window", 16}})->sliding_window, ElementsAre(0, 0, 0, 0));
  }
}

TEST(Windows, FollowLayerTypesBeforeOlderRules) {
  const nlohmann::json types = {kFull, kSliding, kSliding, kFull};
  EXPECT_THAT(ReadWith("gemma2", {{"sliding_window", 16}, {"layer_types", types}})->sliding_window,
              ElementsAre(0, 16, 16, 0));
  EXPECT_THAT(ReadWith("qwen2", {{"sliding_window", 16},
                                 {"use_sliding_window", true},
                                 {"max_window_layers", 3},
                                 {"layer_types", types}})
                  ->sliding_window,
              ElementsAre(0, 16, 16, 0));
  const nlohmann::json full = {kFull, kFull, kFull, kFull};
  EXPECT_THAT(ReadWith("qwen3", {{"layer_types", full}})->sliding_window, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(ReadWith("gemma2", {{"layer_types", nullptr}})->sliding_window, ElementsAre(4096, 0, 4096, 0));
}

TEST(Windows, RefuseLayerTypesThatCannotBeMeant) {
  const nlohmann::json types = {kFull, kSliding, kSliding, kFull};
  // A sliding layer without a window in use.
  ExpectRefused(ReadWith("qwen2", {{"sliding_window", 16}, {"layer_types", types}}),
                {"layer_types[1]", kSliding, "use_sliding_window"});
  ExpectRefused(ReadWith("gemma2", {{"sliding_window", nullptr}, {"layer_types", types}}),
                {"layer_types[1]"});
  // Families whose own code passes the list over.
  ExpectRefused(ReadWith("mistral", {{"sliding_window", 16}, {"layer_types", types}}),
                {"layer_types[0]", kFull, "mistral", "every layer"});
  ExpectRefused(ReadWith("llama", {{"sliding_window", 16}, {"layer_types", types}}), {"layer_types[1]"});
  ExpectRefused(ReadWith("gemma2", {{"layer_types", {kFull, kSliding}}}), {"layer_types", "4 strings"});
  ExpectRefused(ReadWith("gemma2", {{"layer_types", {kFull, kFull, "chunked_attention", kFull}}}),
                {"layer_types[2]", "\"chunked_attention\"", kSliding});
  ExpectRefused(ReadWith("gemma2", {{"layer_types", {kFull, kFull, 3, kFull}}}), {"layer_types"});
}

TEST(Windows, RefuseAWindowThatSeesNothing) {
  ExpectRefused(ReadWith("mistral", {{"sliding_window", 0}}), {"sliding_window is 0", "from 1"});
  ExpectRefused(ReadWith("gemma2", {{"sliding_window", -4}}), {"sliding_window is -4"});
}

}  // namespace
}  // namespace ropelab::formats
