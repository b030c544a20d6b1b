// Prompts and lengths of texts, over a tokenizer whose ids are the text's bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_join.h"
#include "tests/unit/measure/list_recorder.h"
#include "tests/unit/measure/text_fakes.h"
#include "worker/measure/generated_text.h"
#include "worker/measure/measurement.h"
#include "worker/measure/prompts.h"

namespace ropelab::measure {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Sentences(uint64_t seed, uint64_t sample, int count) {
  GeneratedSentences sentences(seed, sample);
  std::vector<std::string> list;
  for (int i = 0; i < count; ++i) list.push_back(sentences.Next());
  return list;
}

// By numpy, with the grammar read from the source as data: docs/random-numbers.md.
TEST(GeneratedSentences, AreThoseThatNumpyDraws) {
  EXPECT_THAT(
      Sentences(42, 0, 3),
      ElementsAre("Nobody at the river bank remembered who had cleaned the faded wooden box.",
                  "Along the way the tailor passed a goat, a map and a row of pears.",
                  "From the workshop one could see how a bank of clouds moved slowly over the fields."));
  EXPECT_THAT(Sentences(7, 3, 2),
              ElementsAre("The price of beans had not changed, so the mason bought a kettle instead.",
                          "Along the way the farmer passed a deer, a candle and a row of leeks."));
}

TEST(GeneratedSentences, HaveTwentyToTwoHundredCharactersAndSeldomRepeat) {
  std::set<std::string> distinct;
  for (const std::string& sentence : Sentences(1, 0, 20000)) {
    EXPECT_GE(sentence.size(), 20u) << sentence;
    EXPECT_LE(sentence.size(), 200u) << sentence;
    EXPECT_EQ(sentence.back(), '.') << sentence;
    EXPECT_EQ(sentence.find_first_of("<>"), std::string::npos) << sentence;
    distinct.insert(sentence);
  }
  EXPECT_GT(distinct.size(), 10000u);
}

class TextPrompts : public testing::Test {
 protected:
  TextPrompts() {
    config_.vocabulary = 512;
    config_.max_positions = 1000;
  }
  static v1::PromptBlock Corpus(std::vector<int64_t> documents, int64_t tokens,
                                const std::string& field = "") {
    v1::PromptBlock block;
    block.mutable_samples()->set_count(static_cast<int64_t>(documents.size()));
    block.mutable_corpus()->set_corpus("c0ffee");
    block.mutable_corpus()->set_text_field(field);
    block.mutable_corpus()->set_tokens(tokens);
    block.mutable_corpus()->mutable_documents()->Assign(documents.begin(), documents.end());
    return block;
  }
  static v1::PromptBlock Generated(int64_t first, int64_t count, int64_t tokens) {
    v1::PromptBlock block;
    block.mutable_samples()->set_first_sample(first);
    block.mutable_samples()->set_count(count);
    block.mutable_generated()->set_seed(42);
    block.mutable_generated()->set_tokens(tokens);
    return block;
  }
  absl::StatusOr<std::vector<TokenIds>> Realize(const v1::PromptBlock& block) {
    return RealizePrompts(block, config_, {nullptr, tokenizer_.get(), &texts_});
  }
  std::string Problem(const v1::PromptBlock& block) { return std::string(Realize(block).status().message()); }

  formats::ModelConfig config_;
  std::shared_ptr<const formats::Tokenizer> tokenizer_ = ByteTokenizer();
  ListTexts texts_{{"Call me", R"({"text": "abc\u00e9", "n": 5, "other": "xyz"})", "no JSON", "[1]"}};
};

TEST_F(TextPrompts, ADocumentIsCutToItsFirstIds) {
  const auto prompts = Realize(Corpus({0, 2}, 5));
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  EXPECT_THAT((*prompts)[0], ElementsAre('C', 'a', 'l', 'l', ' '));
  EXPECT_THAT((*prompts)[1], ElementsAre('n', 'o', ' ', 'J', 'S'));
}

TEST_F(TextPrompts, BosCountsAsAToken) {
  v1::PromptBlock block = Corpus({0}, 8);
  block.mutable_corpus()->set_bos_token_id(300);
  const auto prompts = Realize(block);
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  EXPECT_THAT((*prompts)[0], ElementsAre(300, 'C', 'a', 'l', 'l', ' ', 'm', 'e'));
}

TEST_F(TextPrompts, AJsonLineGivesTheFieldThatIsNamed) {
  EXPECT_THAT((*Realize(Corpus({1}, 5, "text")))[0], ElementsAre('a', 'b', 'c', 0xC3, 0xA9));
  EXPECT_THAT((*Realize(Corpus({1}, 2, "other")))[0], ElementsAre('x', 'y'));
}

TEST_F(TextPrompts, NamesTheDocumentThatIsNotAsItShouldBe) {
  EXPECT_THAT(Problem(Corpus({0}, 8)),
              HasSubstr("document 0 of corpus c0ffee has 7 tokens and 8 are needed"));
  EXPECT_THAT(Problem(Corpus({1}, 1, "body")),
              HasSubstr("document 1 of corpus c0ffee: its field \"body\" is missing"));
  EXPECT_THAT(Problem(Corpus({1}, 1, "n")), HasSubstr("its field \"n\" is a number, no text"));
  EXPECT_THAT(Problem(Corpus({2}, 1, "text")), HasSubstr("document 2 of corpus c0ffee is no JSON object"));
  EXPECT_THAT(Problem(Corpus({3}, 1, "text")), HasSubstr("document 3 of corpus c0ffee is no JSON object"));
  EXPECT_THAT(Problem(Corpus({4}, 1)), HasSubstr("no document 4 of corpus c0ffee"));
  EXPECT_THAT(Problem(Corpus({0}, 1001)),
              HasSubstr("corpus prompts of 1001 tokens: the model takes 1 to 1000"));
  EXPECT_THAT(Problem(Generated(0, 1, 1001)), HasSubstr("generated prompts of 1001 tokens"));
  v1::PromptBlock uneven = Corpus({0, 1}, 2);
  uneven.mutable_samples()->set_count(1);
  EXPECT_THAT(Problem(uneven), HasSubstr("1 samples but 2 documents"));
}

TEST_F(TextPrompts, ATokenizerOfAnotherModelIsNamed) {
  config_.vocabulary = 'm';  // the text's 'm' has no row
  EXPECT_THAT(
      Problem(Corpus({0}, 7)),
      HasSubstr("document 0 of corpus c0ffee: the model's tokenizer.json makes token id 109 of it, and the "
                "embedding has 109 rows"));
  EXPECT_THAT(Problem(Generated(0, 1, 100)), HasSubstr("belongs to another checkpoint"));
}

TEST_F(TextPrompts, WithoutATokenizerThereIsNothingToFeed) {
  EXPECT_EQ(RealizePrompts(Corpus({0}, 1), config_).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(RealizePrompts(Generated(0, 1, 1), config_).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(TextPrompts, GeneratedTextIsItsSentencesWithASpaceBetween) {
  const auto prompts = Realize(Generated(0, 2, 700));
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  for (uint64_t sample = 0; sample < 2; ++sample) {
    const std::string text = absl::StrJoin(Sentences(42, sample, 40), " ");
    EXPECT_EQ(std::string((*prompts)[sample].begin(), (*prompts)[sample].end()), text.substr(0, 700));
  }
}

TEST_F(TextPrompts, AGeneratedSampleDependsOnNothingButItsNumber) {
  EXPECT_EQ((*Realize(Generated(8, 8, 50)))[2], (*Realize(Generated(8, 3, 50)))[2]);
  const TokenIds shorter = (*Realize(Generated(0, 1, 50)))[0], longer = (*Realize(Generated(0, 1, 900)))[0];
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin()));
}

TEST_F(TextPrompts, LengthsAreOfEveryDocumentThatIsNamed) {
  v1::Measurement measurement;
  v1::TextLengths& request = *measurement.mutable_text_lengths();
  request.set_corpus("c0ffee");
  request.set_text_field("text");
  request.add_documents(1);
  ListRecorder recorder;
  const auto outcome = Measure(measurement, Resources{nullptr, tokenizer_.get(), &texts_}, {}, recorder);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->fed_ids_digest, "");
  ASSERT_EQ(recorder.readings.size(), 1u);
  const v1::DocumentLengths& lengths = recorder.readings[0].document_lengths();
  EXPECT_THAT(lengths.documents(), ElementsAre(1));
  EXPECT_THAT(lengths.tokens(), ElementsAre(5));      // bytes
  EXPECT_THAT(lengths.characters(), ElementsAre(4));  // abcé

  request.clear_text_field();
  request.add_documents(0);
  request.add_documents(2);
  ListRecorder again;
  ASSERT_TRUE(Measure(measurement, Resources{nullptr, tokenizer_.get(), &texts_}, {}, again).ok());
  EXPECT_THAT(again.readings[0].document_lengths().documents(), ElementsAre(1, 0, 2));
  EXPECT_THAT(again.readings[0].document_lengths().tokens(), ElementsAre(45, 7, 7));
}

TEST_F(TextPrompts, LengthsNeedATokenizerAndTexts) {
  v1::Measurement measurement;
  measurement.mutable_text_lengths()->add_documents(0);
  const Needs needs = NeedsOf(measurement);
  EXPECT_TRUE(needs.tokenizer && needs.texts && !needs.model);
  ListRecorder recorder;
  EXPECT_THAT(std::string(Measure(measurement, Resources{}, {}, recorder).status().message()),
              HasSubstr("text_lengths needs a tokenizer"));
  measurement.mutable_text_lengths()->clear_documents();
  EXPECT_THAT(std::string(Measure(measurement, Resources{nullptr, tokenizer_.get(), &texts_}, {}, recorder)
                              .status()
                              .message()),
              HasSubstr("lengths of 0 documents"));
}

TEST_F(TextPrompts, StopsBetweenDocuments) {
  v1::Measurement measurement;
  measurement.mutable_text_lengths()->set_corpus("c0ffee");
  for (int i = 0; i < 3; ++i) measurement.mutable_text_lengths()->add_documents(0);
  ListRecorder recorder;
  recorder.cancel_at_call = 2;
  EXPECT_EQ(Measure(measurement, Resources{nullptr, tokenizer_.get(), &texts_}, {}, recorder).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_TRUE(recorder.readings.empty());
}

}  // namespace
}  // namespace ropelab::measure
