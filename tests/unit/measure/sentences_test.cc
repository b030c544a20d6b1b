// Sentences by the rule of docs/experiments/needles.md, worked by hand.
#include "worker/measure/sentences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ropelab::measure {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Sentences, EndAfterAMarkAndWhatClosesBehindIt) {
  EXPECT_THAT(
      SentencesOf("The door was open all day. \"Did anybody come in?\" she asked him.  (Nobody did, as "
                  "I know!) So they closed it again"),
      ElementsAre("The door was open all day.", "\"Did anybody come in?\" she asked him.",
                  "(Nobody did, as I know!)", "So they closed it again"));
}

TEST(Sentences, DoNotEndInsideANameOrBeforeASmallLetter) {
  EXPECT_THAT(
      SentencesOf("Then Mr. Brown met J. Smith at St. Anne's church. It cost 3.50 or so, e.g. at noon."),
      ElementsAre("Then Mr. Brown met J. Smith at St. Anne's church.", "It cost 3.50 or so, e.g. at noon."));
}

TEST(Sentences, EndAtABlankLineAndNotAtALineBreak) {
  EXPECT_THAT(SentencesOf("THE SECOND CHAPTER OF IT\r\n \r\nA line that\tgoes on\nbehind the\f break"),
              ElementsAre("THE SECOND CHAPTER OF IT", "A line that goes on behind the break"));
}

TEST(Sentences, AreTakenFromTwentyToTwoHundredCharactersNotBytes) {
  const std::string nineteen = "Exactly nineteen c.";
  EXPECT_EQ(nineteen.size(), 19u);
  EXPECT_THAT(SentencesOf(nineteen), IsEmpty());
  EXPECT_THAT(SentencesOf(nineteen + "."), ElementsAre(nineteen + "."));
  const std::string long_word(198, 'x');
  EXPECT_THAT(SentencesOf(long_word + " a"), ElementsAre(long_word + " a"));
  EXPECT_THAT(SentencesOf(long_word + " ab"), IsEmpty());
  std::string accents;
  for (int i = 0; i < 19; ++i) accents += "\xC3\xA9";
  EXPECT_THAT(SentencesOf(accents), IsEmpty());
  EXPECT_THAT(SentencesOf(accents + "."), ElementsAre(accents + "."));
}

TEST(Sentences, OfNothingAreNone) {
  EXPECT_THAT(SentencesOf(""), IsEmpty());
  EXPECT_THAT(SentencesOf(" \n\n \t"), IsEmpty());
}

}  // namespace
}  // namespace ropelab::measure
