#include "common/service/canonical_hash.h"

#include <gtest/gtest.h>

#include "google/protobuf/text_format.h"
#include "ropelab/v1/spec.pb.h"

namespace ropelab {
namespace {

v1::ExperimentSpec Parse(const std::string& text) {
  v1::ExperimentSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

// The digests were computed from the header's words with Python's struct and hashlib: I(v) = 8 bytes
// little-endian, T(s) = I(len) + s; a message is I(fields present) and per field I(number), a tag byte,
// [I(count)], values.
TEST(CanonicalHash, IsTheWalkThatTheHeaderDescribes) {
  EXPECT_EQ(CanonicalHash(Parse("")), "af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc");
  EXPECT_EQ(CanonicalHash(Parse(R"(name: "a" seeds: [42, 123]
                                   slash_detection { threshold: 0.1 offsets { first: 0 last: 4 } })")),
            "ec1865b44e4347f6145c0a301706bcfcc1d85ea5ff052a0eb4c263ba0aaf1491");
}

TEST(CanonicalHash, TakesMinusZeroAsZero) {
  v1::SlashDetection detection;
  detection.set_threshold(-0.0);
  EXPECT_EQ(CanonicalHash(detection), "cadf8c3e9ef525e49e0381e74abdef2014950cc2465a0a53b9c606cb8ba84e2e");
  detection.set_threshold(0.0);
  EXPECT_EQ(CanonicalHash(detection), "cadf8c3e9ef525e49e0381e74abdef2014950cc2465a0a53b9c606cb8ba84e2e");
}

TEST(CanonicalHash, DoesNotDependOnTheOrderThatFieldsWereWritten) {
  EXPECT_EQ(CanonicalHash(Parse(R"(name: "a" model: "m")")), CanonicalHash(Parse(R"(model: "m" name: "a")")));
}

TEST(CanonicalHash, TellsPresentDefaultFromAbsent) {
  EXPECT_NE(CanonicalHash(Parse("slash_detection { skip_first: 0 }")),
            CanonicalHash(Parse("slash_detection {}")));
}

TEST(CanonicalHash, TellsListsApartThatConcatenateAlike) {
  EXPECT_NE(CanonicalHash(Parse(R"(tags: ["ab", "c"])")), CanonicalHash(Parse(R"(tags: ["a", "bc"])")));
}

}  // namespace
}  // namespace ropelab
