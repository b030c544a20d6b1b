// The rules of prompts that come from text.
#include "fakes.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Detect(const std::string& prompts, const std::string& model = "model: 'toy'") {
  return "name: 'x' " + model + " slash_detection { prompts { " + prompts + " } threshold: 0.9 }";
}

FakeCatalogue World(std::vector<CorpusFacts> corpora = {Books()}) {
  return FakeCatalogue({ReadingModel()}, std::move(corpora));
}

v1::CorpusPrompts ResolvedCorpus(const std::string& fields, const FakeCatalogue& catalogue) {
  return Resolved(Detect("corpus { name: 'books' count: 3 tokens: 64 " + fields + " }"), catalogue)
      .resolved.slash_detection()
      .prompts()
      .corpus();
}

TEST(CorpusResolve, TheResolvedNameHoldsTheWholeHash) {
  const v1::CorpusPrompts prompts = ResolvedCorpus("", World());
  EXPECT_EQ(prompts.name(), "books@" + std::string(64, 'e'));
  EXPECT_EQ(prompts.text_field(), "text");
  EXPECT_EQ(prompts.bos(), v1::Bos::ALWAYS);
}

TEST(CorpusResolve, AHashOfEightDigitsOrAllNamesTheSame) {
  const auto hash = [](const std::string& name) {
    return Resolved(Detect("corpus { name: '" + name + "' count: 3 tokens: 64 }"), World()).spec_hash;
  };
  EXPECT_EQ(hash("books"), hash("books@eeeeeeee"));
  EXPECT_EQ(hash("books"), hash("books@" + std::string(64, 'e')));
}

TEST(CorpusResolve, CountsAndLengthsAreThePapersByDefault) {
  ModelFacts model = ReadingModel();
  model.config.set_max_positions(8192);
  CorpusFacts corpus = Books();
  corpus.documents = 600;
  const FakeCatalogue world({model}, {corpus});
  const auto prompts =
      Resolved(Detect("corpus { name: 'books' }"), world).resolved.slash_detection().prompts();
  EXPECT_EQ(prompts.corpus().count(), 500);
  EXPECT_EQ(prompts.corpus().tokens(), 6000);
  const auto generated = Resolved(Detect("generated {}"), world).resolved.slash_detection().prompts();
  EXPECT_EQ(generated.generated().count(), 500);
  EXPECT_EQ(generated.generated().tokens(), 6000);
  EXPECT_EQ(generated.generated().bos(), v1::Bos::ALWAYS);
}

TEST(CorpusResolve, APlainTextCorpusHasNoField) {
  CorpusFacts text = Books();
  text.kind = "text";
  text.text_fields.clear();
  EXPECT_EQ(ResolvedCorpus("", World({text})).text_field(), "");
  EXPECT_THAT(
      ProblemsOf(Detect("corpus { name: 'books' count: 3 tokens: 64 text_field: 'text' }"), World({text})),
      ElementsAre(HasSubstr("corpus.text_field: corpus books is plain text")));
}

TEST(CorpusResolve, AnotherFieldIsTakenWhenNamed) {
  EXPECT_EQ(ResolvedCorpus("text_field: 'title'", World()).text_field(), "title");
}

TEST(CorpusResolve, WithoutAFieldCalledTextOneMustBeNamed) {
  CorpusFacts corpus = Books();
  corpus.text_fields = {"body", "title"};
  const auto of = [&](const std::string& more) {
    return ProblemsOf(Detect("corpus { name: 'books' count: 3 tokens: 64 " + more + " }"), World({corpus}));
  };
  EXPECT_THAT(of(""),
              ElementsAre(HasSubstr("text_field: name the field that holds the text; corpus books has "
                                    "body, title")));
  EXPECT_THAT(
      of("text_field: 'texts'"),
      ElementsAre(HasSubstr("text_field: is not a text field of the corpus's first line; corpus books "
                            "has body, title")));
}

TEST(CorpusResolve, NamesTheKnownCorpora) {
  const auto of = [](const std::string& name, std::vector<CorpusFacts> corpora) {
    return ProblemsOf(Detect("corpus { name: '" + name + "' count: 3 tokens: 64 }"),
                      World(std::move(corpora)));
  };
  EXPECT_THAT(of("book", {Books("news"), Books("books")}),
              ElementsAre(HasSubstr("corpus.name: no corpus of this name is registered; known: books, news; "
                                    "`ropelab corpora add NAME PATH`")));
  EXPECT_THAT(of("book", {}), ElementsAre(HasSubstr("no corpus is registered yet; `ropelab corpora add")));
  EXPECT_THAT(of("", {Books()}), ElementsAre(HasSubstr("name the corpus: known: books")));
}

TEST(CorpusResolve, TwoContentsUnderOneNameNeedTheHash) {
  const FakeCatalogue world = World({Books("books", '7'), Books("books", 'e')});
  EXPECT_THAT(ProblemsOf(Detect("corpus { name: 'books' count: 3 tokens: 64 }"), world),
              ElementsAre(HasSubstr("stands for several contents; say which, the newest first: "
                                    "books@7777777777777777 (10 documents, 5000 bytes), "
                                    "books@eeeeeeeeeeeeeeee (10")));
  EXPECT_EQ(Resolved(Detect("corpus { name: 'books@eeeeeeee' count: 3 tokens: 64 }"), world)
                .resolved.slash_detection()
                .prompts()
                .corpus()
                .name(),
            "books@" + std::string(64, 'e'));
  EXPECT_THAT(ProblemsOf(Detect("corpus { name: 'books@eeee' count: 3 tokens: 64 }"), world),
              ElementsAre(HasSubstr("at least 8 lower-case hex digits")));
  EXPECT_THAT(ProblemsOf(Detect("corpus { name: 'books@12345678' count: 3 tokens: 64 }"), world),
              ElementsAre(HasSubstr("no content of this name has such a hash")));
}

TEST(CorpusResolve, ACorpusThatCannotBeReadIsRefusedWithItsCause) {
  CorpusFacts gone = Books();
  gone.problem = "books.jsonl is gone";
  EXPECT_THAT(ProblemsOf(Detect("corpus { name: 'books' count: 3 tokens: 64 }"), World({gone})),
              ElementsAre(HasSubstr("the corpus cannot be read: books.jsonl is gone")));
}

TEST(CorpusResolve, AContentThatIsGoneDoesNotMakeItsNameAmbiguous) {
  CorpusFacts gone = Books("books", '7');
  gone.problem = "books.jsonl changed";
  EXPECT_EQ(ResolvedCorpus("", World({gone, Books()})).name(), "books@" + std::string(64, 'e'));
  EXPECT_THAT(
      ProblemsOf(Detect("corpus { name: 'books@77777777' count: 3 tokens: 64 }"), World({gone, Books()})),
      ElementsAre(HasSubstr("the corpus cannot be read: books.jsonl changed")));
}

TEST(CorpusResolve, RefusesMorePromptsThanDocuments) {
  EXPECT_THAT(ProblemsOf(Detect("corpus { name: 'books' count: 11 tokens: 64 }"), World()),
              ElementsAre(HasSubstr("corpus.count: corpus books has 10 documents")));
}

TEST(CorpusResolve, AModelWithoutTokenizerReadsNoText) {
  const FakeCatalogue world({ReadingModel(), ToyModel("mute")}, {Books()});
  for (const char* source :
       {"corpus { name: 'books' count: 3 tokens: 64 }", "generated { count: 3 tokens: 64 }"}) {
    EXPECT_THAT(ProblemsOf(Detect(source, "models: ['toy', 'mute']"), world),
                ElementsAre(HasSubstr("model mute has no tokenizer.json")));
  }
}

TEST(CorpusResolve, BosNeedsATokenOfThatName) {
  ModelFacts model = ReadingModel();
  model.config.clear_bos_token_id();
  const FakeCatalogue world({model}, {Books()});
  const auto of = [&](const std::string& bos) {
    return ProblemsOf(Detect("generated { count: 3 tokens: 64 " + bos + " }"), world);
  };
  EXPECT_THAT(of("bos: ALWAYS"), ElementsAre(HasSubstr("generated.bos: model toy has no BOS token")));
  EXPECT_THAT(of(""), ElementsAre(HasSubstr("generated.bos: the tokenizer of model toy puts BOS first")));
  EXPECT_THAT(of("bos: NEVER"), IsEmpty());
}

TEST(CorpusResolve, TheEstimateSaysWhatItLeavesOut) {
  const v1::Estimate estimate =
      Resolved(Detect("corpus { name: 'books' count: 9 tokens: 64 }"), World()).estimate;
  EXPECT_EQ(estimate.tasks(), 1 + 2);  // lengths, and two blocks of profiles
  EXPECT_THAT(estimate.basis(), HasSubstr("as if every document were long enough"));
}

}  // namespace
}  // namespace ropelab::experiments
