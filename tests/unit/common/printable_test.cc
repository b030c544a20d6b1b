#include "common/printable.h"

#include <gtest/gtest.h>

namespace ropelab {
namespace {

TEST(Printable, LeavesPlainTextWithItsLines) {
  EXPECT_EQ(Printable("Kopf 3, \xC3\xA4\n\tend", 100), "Kopf 3, \xC3\xA4\n\tend");
}

TEST(Printable, MarksControlsAndBytesThatAreNoText) {
  EXPECT_EQ(Printable("a\x1B[31m\r\x7F", 100), "a?[31m??");
  EXPECT_EQ(Printable("\xC2\x9B|", 100), "?|");      // C1 control
  EXPECT_EQ(Printable("\xFF\xC3|", 100), "??|");     // lone bytes
  EXPECT_EQ(Printable("\xED\xA0\x80", 100), "???");  // a surrogate
  EXPECT_EQ(Printable("\xC0\x80", 100), "??");       // NUL in two bytes
  EXPECT_EQ(Printable(std::string(1, '\0'), 100), "?");
}

TEST(Printable, CutsAtACharactersStart) {
  EXPECT_EQ(Printable("aaa\xC3\xA4", 4), "aaa...");
  EXPECT_EQ(Printable("aaa\xC3\xA4", 5), "aaa\xC3\xA4");
  EXPECT_EQ(Printable("abcdef", 3), "abc...");
}

TEST(IsPlainText, RefusesLineEndsAndBytesThatAreNoText) {
  EXPECT_TRUE(IsPlainText("llama-3_a \xE2\x82\xAC"));
  EXPECT_FALSE(IsPlainText("two\nlines"));
  EXPECT_FALSE(IsPlainText("\xFF"));
}

}  // namespace
}  // namespace ropelab
