// Needle prompts over a tokenizer whose ids are the text's bytes. Texts and spans by
// tests/e2e/independent_needles.py, run once; docs/experiments/needles.md.
#include "worker/measure/needle_prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/measure/list_recorder.h"
#include "tests/unit/measure/text_fakes.h"
#include "worker/measure/kinds.h"

namespace ropelab::measure {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

v1::NeedleSample Sample(int64_t context_length, double depth, int64_t index) {
  v1::NeedleSample sample;
  sample.set_context_length(context_length);
  sample.set_depth(depth);
  sample.set_index(index);
  return sample;
}

class NeedlePromptsTest : public testing::Test {
 protected:
  static v1::PromptBlock Generated(const std::vector<v1::NeedleSample>& samples) {
    v1::PromptBlock block;
    block.mutable_samples()->set_first_sample(8);
    block.mutable_samples()->set_count(static_cast<int64_t>(samples.size()));
    v1::NeedlePrompts& needle = *block.mutable_needle();
    needle.set_seed(42);
    needle.set_use(v1::NeedlePrompts::DETECTION);
    needle.set_needle_text("The secret passphrase is CODE.");
    needle.set_question_text("\n\nWhat is the secret passphrase?\n\nAnswer:");
    needle.set_code_alphabet("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
    needle.set_code_length(5);
    for (const v1::NeedleSample& sample : samples) *needle.add_samples() = sample;
    return block;
  }
  static v1::PromptBlock Corpus(const std::vector<v1::NeedleSample>& samples) {
    v1::PromptBlock block = Generated(samples);
    v1::NeedlePrompts& needle = *block.mutable_needle();
    needle.set_seed(7);
    needle.set_use(v1::NeedlePrompts::TEST);
    needle.set_corpus("c0ffee");
    needle.set_corpus_documents(2);
    needle.set_needle_text("Code: CODE!");
    needle.set_question_text(" What?");
    needle.set_code_alphabet("XY");
    needle.set_code_length(3);
    return block;
  }
  absl::StatusOr<std::vector<RealisedNeedle>> Realise(const v1::PromptBlock& block) {
    return RealiseNeedles(block.needle(), block.samples(), {nullptr, tokenizer_.get(), &texts_});
  }
  RealisedNeedle One(const v1::PromptBlock& block) {
    const auto needles = Realise(block);
    EXPECT_TRUE(needles.ok()) << needles.status();
    return needles.ok() ? needles->at(0) : RealisedNeedle();
  }
  std::string Problem(const v1::PromptBlock& block) { return std::string(Realise(block).status().message()); }

  std::shared_ptr<const formats::Tokenizer> tokenizer_ = ByteTokenizer();
  ListTexts texts_{
      {"The first document has one sentence that counts. No. Mr. Brown met J. Smith near the gate, and they "
       "spoke (for a while.) then they left! Was it so?",
       "Chapter One\n\nIt was a warm day in the valley\nand nobody hurried. \"Why should we?\" asked the "
       "miller. "
       "The end of it came late that year."}};
};

TEST_F(NeedlePromptsTest, AreThoseThatNumpyDraws) {
  v1::PromptBlock block = Generated({Sample(128, 0.5, 3)});
  block.mutable_needle()->set_bos_token_id(300);
  const RealisedNeedle needle = One(block);
  EXPECT_EQ(needle.text,
            "the eastern gate to The secret passphrase is DXWN1. the lighthouse to trade cherries\n\nWhat is "
            "the secret passphrase?\n\nAnswer:");
  ASSERT_EQ(needle.ids.size(), 126u);
  EXPECT_EQ(needle.ids[0], 300);
  EXPECT_EQ(std::string(needle.ids.begin() + 1, needle.ids.end()), needle.text);
  const v1::RealisedNeedle& facts = needle.facts;
  EXPECT_TRUE(facts.fits());
  EXPECT_EQ(facts.sample(), 8);
  EXPECT_EQ(facts.tokens(), 126);
  EXPECT_EQ(facts.code_text(), "DXWN1");
  EXPECT_EQ(facts.words(), 9);
  EXPECT_EQ(facts.depth(), 4.0 / 9);
  EXPECT_EQ(facts.needle().first(), 21);
  EXPECT_EQ(facts.needle().last(), 51);
  EXPECT_EQ(facts.code().first(), 46);
  EXPECT_EQ(facts.code().last(), 50);
  EXPECT_EQ(facts.question(), 85);
}

TEST_F(NeedlePromptsTest, TakeDocumentsAndTheirSentencesInDrawnOrder) {
  const RealisedNeedle needle = One(Corpus({Sample(50, 0.25, 0)}));
  EXPECT_EQ(needle.text, "and Code: XYX! they spoke (for a while.) What?");
  EXPECT_EQ(needle.facts.words(), 6);
  EXPECT_EQ(needle.facts.depth(), 1.0 / 6);
  EXPECT_EQ(needle.facts.needle().first(), 4);
  EXPECT_EQ(needle.facts.needle().last(), 13);
  EXPECT_EQ(needle.facts.code().first(), 10);
  EXPECT_EQ(needle.facts.code().last(), 12);
  EXPECT_EQ(needle.facts.question(), 40);
}

TEST_F(NeedlePromptsTest, OfOneSampleDoNotDependOnItsBlock) {
  const auto together = Realise(Generated({Sample(128, 0.1, 0), Sample(256, 0.9, 1), Sample(256, 1, 0)}));
  ASSERT_TRUE(together.ok()) << together.status();
  EXPECT_EQ(together->at(1).text, One(Generated({Sample(256, 0.9, 1)})).text);
  EXPECT_EQ(together->at(2).facts.depth(), 1.0);
  EXPECT_THAT(together->at(2).text, HasSubstr("is " + together->at(2).facts.code_text() + ".\n\nWhat"));
}

TEST_F(NeedlePromptsTest, ForDetectionAndForTestAreNeverTheSame) {
  v1::PromptBlock test = Generated({Sample(128, 0.5, 3)});
  test.mutable_needle()->set_use(v1::NeedlePrompts::TEST);
  EXPECT_NE(One(test).facts.code_text(), One(Generated({Sample(128, 0.5, 3)})).facts.code_text());
}

// Needle and question have 31 + 41 characters.
TEST_F(NeedlePromptsTest, FitOrSayThatTheyDoNot) {
  const RealisedNeedle exactly = One(Generated({Sample(72, 0.5, 0)}));
  EXPECT_TRUE(exactly.facts.fits());
  EXPECT_EQ(exactly.facts.tokens(), 72);
  EXPECT_EQ(exactly.facts.words(), 0);
  EXPECT_EQ(exactly.facts.depth(), 0);
  const RealisedNeedle never = One(Generated({Sample(71, 0.5, 0)}));
  EXPECT_FALSE(never.facts.fits());
  EXPECT_EQ(never.least_tokens, 72);
  EXPECT_EQ(never.facts.tokens(), 0);
  EXPECT_FALSE(never.facts.has_needle());
  EXPECT_TRUE(never.ids.empty());
}

TEST_F(NeedlePromptsTest, RefuseByName) {
  EXPECT_THAT(Problem(Corpus({Sample(64, 0.5, 2)})),
              AllOf(HasSubstr("needle sample 8 (context length 64, depth 0.5, index 2): corpus c0ffee has"),
                    HasSubstr("a haystack for 64 tokens takes 256")));
  v1::PromptBlock block = Generated({Sample(128, 0.5, 0)});
  block.mutable_needle()->set_chat(true);
  EXPECT_THAT(Problem(block), HasSubstr("chat"));
  block = Generated({Sample(128, 0.5, 0)});
  block.mutable_needle()->set_needle_text("no place for it");
  EXPECT_THAT(Problem(block), HasSubstr("does not hold the word CODE exactly once"));
  block.mutable_needle()->set_needle_text("CODE and CODE");
  EXPECT_THAT(Problem(block), HasSubstr("does not hold the word CODE exactly once"));
  block = Generated({Sample(128, 1.5, 0)});
  EXPECT_THAT(Problem(block), HasSubstr("a depth 0 to 1"));
  block = Generated({Sample(128, 0.5, 0)});
  block.mutable_samples()->set_count(2);
  EXPECT_THAT(Problem(block), HasSubstr("2 samples but 1 needles"));
  block = Corpus({Sample(50, 0.5, 0)});
  block.mutable_needle()->set_corpus_documents(3);
  EXPECT_THAT(Problem(block), HasSubstr("no document 2 of corpus c0ffee"));
}

TEST_F(NeedlePromptsTest, AsPromptsAmongOthersRefuseWhatDoesNotFit) {
  formats::ModelConfig config;
  config.vocabulary = 512;
  config.max_positions = 1000;
  const Resources resources{nullptr, tokenizer_.get(), &texts_};
  const auto prompts = RealizePrompts(Generated({Sample(128, 0.5, 3)}), config, resources);
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  EXPECT_EQ(prompts->at(0), One(Generated({Sample(128, 0.5, 3)})).ids);
  EXPECT_THAT(
      std::string(RealizePrompts(Generated({Sample(71, 0.5, 0)}), config, resources).status().message()),
      AllOf(HasSubstr("needle sample 8 (context length 71"),
            HasSubstr("needle and question alone are 72 tokens")));
  config.vocabulary = 100;
  EXPECT_THAT(
      std::string(RealizePrompts(Generated({Sample(128, 0.5, 3)}), config, resources).status().message()),
      HasSubstr("the embedding has 100 rows"));
}

TEST_F(NeedlePromptsTest, TextLengthsGiveAReadingForEachSample) {
  v1::TextLengths request;
  *request.mutable_needles() = Generated({Sample(128, 0.5, 3), Sample(71, 0.5, 0)});
  ListRecorder recorder;
  ASSERT_TRUE(MeasureTextLengths(request, {nullptr, tokenizer_.get(), nullptr}, recorder).ok());
  ASSERT_EQ(recorder.readings.size(), 2u);
  EXPECT_EQ(recorder.readings[0].realised_needle().tokens(), 125);
  EXPECT_EQ(recorder.readings[1].realised_needle().sample(), 9);
  EXPECT_FALSE(recorder.readings[1].realised_needle().fits());
}

TEST_F(NeedlePromptsTest, AForcedAnswerFindsItsTokensInTheNeedle) {
  const RealisedNeedle needle = One(Generated({Sample(128, 0.5, 3)}));
  const auto forced = ForceAnswer(needle, *tokenizer_);
  ASSERT_TRUE(forced.ok()) << forced.status();
  EXPECT_EQ(forced->first, 125);
  EXPECT_EQ(std::string(forced->ids.begin(), forced->ids.end()), needle.text + " DXWN1");
  const int64_t code = needle.facts.code().first();
  EXPECT_THAT(forced->occurrences, ElementsAre(code - 1, code, code + 1, code + 2, code + 3, code + 4));
}

// Which makes one space of the answer, not two.
TEST_F(NeedlePromptsTest, AForcedAnswerOfATokenizerThatPutsASpaceAheadIsTheCodeAlone) {
  nlohmann::json json = nlohmann::json::parse(ByteTokenizerJson());
  json["pre_tokenizer"]["add_prefix_space"] = true;
  const auto tokenizer = formats::Tokenizer::Parse(json.dump(), "spaced.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  tokenizer_ = *tokenizer;
  const RealisedNeedle needle = One(Generated({Sample(128, 0.5, 3)}));
  EXPECT_EQ(std::string(needle.ids.begin(), needle.ids.end()), " " + needle.text);
  const auto forced = ForceAnswer(needle, *tokenizer_);
  ASSERT_TRUE(forced.ok()) << forced.status();
  EXPECT_EQ(std::string(forced->ids.begin(), forced->ids.end()), " " + needle.text + " DXWN1");
  const int64_t code = needle.facts.code().first();
  EXPECT_THAT(forced->occurrences, ElementsAre(code - 1, code, code + 1, code + 2, code + 3, code + 4));
}

// A byte that stands before the code in the needle is not the answer's space.
TEST_F(NeedlePromptsTest, AForcedAnswerHasNoOccurrenceWhereTheNeedleSpellsOtherwise) {
  v1::PromptBlock block = Generated({Sample(128, 0.5, 3)});
  block.mutable_needle()->set_needle_text("It is:CODE");
  const auto forced = ForceAnswer(One(block), *tokenizer_);
  ASSERT_TRUE(forced.ok()) << forced.status();
  EXPECT_EQ(forced->occurrences[0], -1);
  EXPECT_GE(forced->occurrences[1], 0);
}

}  // namespace
}  // namespace ropelab::measure
