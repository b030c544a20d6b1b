// What a spec may say of needles. EXPERIMENTS.md section 6.
#include "fakes.h"
#include "server/experiments/needles.h"

namespace ropelab::experiments {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const NeedleDefaults kSmall = {{256, 512}, {0.1, 0.5}, 3};

struct Outcome {
  v1::Needles needles;
  std::vector<std::string> problems;  // "field: remedy"
};

Outcome Resolve(const std::string& text, std::vector<ModelFacts> models = {ReadingModel()},
                const std::string& spec = "models: 'toy' seeds: 42",
                const NeedleDefaults& defaults = kSmall) {
  Outcome outcome;
  outcome.needles = FromText<v1::Needles>(text);
  Problems problems;
  ResolveNeedles(outcome.needles, "kind.needles", defaults, FromText<v1::ExperimentSpec>(spec),
                 Facts{std::move(models), {Books()}}, problems);
  for (const v1::FieldProblem& problem : problems.problems()) {
    outcome.problems.push_back(problem.field() + ": " + problem.remedy());
  }
  return outcome;
}

TEST(NeedlesResolve, WritesEveryDefault) {
  const Outcome outcome = Resolve("haystack { generated {} }");
  EXPECT_THAT(outcome.problems, IsEmpty());
  const v1::Needles& needles = outcome.needles;
  EXPECT_THAT(needles.context_lengths(), ElementsAre(256, 512));
  EXPECT_THAT(needles.depths(), ElementsAre(0.1, 0.5));
  EXPECT_EQ(needles.samples_per_cell(), 3);
  EXPECT_EQ(needles.needle_text(), "The secret passphrase is CODE.");
  EXPECT_EQ(needles.question_text(), "\n\nWhat is the secret passphrase?\n\nAnswer:");
  EXPECT_EQ(needles.code_alphabet(), "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
  EXPECT_EQ(needles.code_length(), 5);
  EXPECT_TRUE(needles.has_chat());
  EXPECT_EQ(NeedleCount(needles), 12);
}

TEST(NeedlesResolve, ThePapersGridIsTheDefault) {
  ModelFacts model = ReadingModel();
  model.config.set_max_positions(8256);
  const Outcome outcome =
      Resolve("haystack { generated {} }", {model}, "models: 'toy' seeds: 42", NeedleDefaults());
  EXPECT_THAT(outcome.problems, IsEmpty());
  EXPECT_THAT(outcome.needles.context_lengths(), ElementsAre(1024, 2048, 4096, 8192));
  EXPECT_THAT(outcome.needles.depths(), ElementsAre(0.1, 0.25, 0.5, 0.75, 0.9));
}

TEST(NeedlesResolve, SortsItsCellsAndNamesTheCorpusByItsContent) {
  const Outcome outcome =
      Resolve("context_lengths: [512, 64] depths: [1, 0.5, 0] haystack { corpus { name: 'books' } }");
  EXPECT_THAT(outcome.problems, IsEmpty());
  EXPECT_THAT(outcome.needles.context_lengths(), ElementsAre(64, 512));
  EXPECT_THAT(outcome.needles.depths(), ElementsAre(0, 0.5, 1));
  EXPECT_EQ(outcome.needles.haystack().corpus().name(), "books@" + std::string(64, 'e'));
  EXPECT_EQ(outcome.needles.haystack().corpus().text_field(), "text");
  const v1::NeedleSample seventh = NeedleSampleOf(outcome.needles, 7);  // cells of 3: (64, 1) holds 6 to 8
  EXPECT_EQ(seventh.context_length(), 64);
  EXPECT_EQ(seventh.depth(), 1);
  EXPECT_EQ(seventh.index(), 1);
}

TEST(NeedlesResolve, RefusesByField) {
  const std::string haystack = " haystack { generated {} }";
  const std::vector<std::pair<std::string, std::string>> refusals = {
      {"", "kind.needles.haystack: say where the haystack's sentences come from"},
      {"haystack { corpus { name: 'novels' } }", "kind.needles.haystack.corpus.name: no corpus of this name"},
      {"haystack { corpus {} }", "kind.needles.haystack.corpus.name: name the corpus"},
      {"haystack { corpus { name: 'books' text_field: 'body' } }",
       "kind.needles.haystack.corpus.text_field: is not a text field"},
      {"context_lengths: [256, 961]" + haystack,
       "kind.needles.context_lengths[1]: and 64 more for the answer are 1025 tokens, and model toy takes at "
       "most 1024; name lengths up to 960"},
      {"context_lengths: [256, 256]" + haystack, "kind.needles.context_lengths[1]: stands there twice"},
      {"context_lengths: 15" + haystack, "kind.needles.context_lengths[0]: is 16 to"},
      {"depths: [0.5, 1.5]" + haystack, "kind.needles.depths[1]: a depth is 0"},
      {"depths: nan" + haystack, "kind.needles.depths[0]: a depth is 0"},
      {"depths: [0.5, 0.5000001]" + haystack, "kind.needles.depths[1]: stands there twice, to a millionth"},
      {"samples_per_cell: 0" + haystack, "kind.needles.samples_per_cell: give at least 1"},
      {"samples_per_cell: 250001" + haystack,
       "kind.needles.samples_per_cell: give at least 1; the samples of all cells together are at most "
       "1000000"},
      {"samples_per_cell: 9223372036854775807" + haystack, "kind.needles.samples_per_cell: give at least 1"},
      {"needle_text: 'the code'" + haystack, "kind.needles.needle_text: holds the word CODE exactly once"},
      {"needle_text: 'CODE, CODE'" + haystack, "kind.needles.needle_text: holds the word CODE exactly once"},
      {"question_text: ''" + haystack, "kind.needles.question_text: has 1 to 4096 bytes"},
      {"code_alphabet: 'A'" + haystack, "kind.needles.code_alphabet: holds at least 2"},
      {"code_alphabet: 'ABA'" + haystack, "kind.needles.code_alphabet: holds at least 2"},
      {"code_alphabet: 'A B'" + haystack, "kind.needles.code_alphabet: holds at least 2"},
      {"code_length: 0" + haystack, "kind.needles.code_length: a code has 1 to 64"},
      {"code_length: 65" + haystack, "kind.needles.code_length: a code has 1 to 64"},
      {"chat: true" + haystack, "kind.needles.chat: a tokenizer's chat template"},
  };
  for (const auto& [needles, problem] : refusals) {
    EXPECT_THAT(Resolve(needles).problems, ElementsAre(HasSubstr(problem))) << needles;
  }
}

TEST(NeedlesResolve, EveryModelNeedsATokenizerAndItsBos) {
  ModelFacts mute = ToyModel("mute"), headless = ReadingModel("headless");
  headless.config.clear_bos_token_id();
  EXPECT_THAT(Resolve("haystack { generated {} }", {ReadingModel(), mute, headless}).problems,
              ElementsAre(HasSubstr("kind.needles: model mute has no tokenizer.json"),
                          HasSubstr("kind.needles: the tokenizer of model headless puts BOS first")));
}

TEST(NeedlesResolve, TasksAreBounded) {
  std::string seeds;
  for (int seed = 0; seed < 100; ++seed) {
    seeds += " seeds: " + std::to_string(seed);
  }
  EXPECT_THAT(
      Resolve("samples_per_cell: 20001 haystack { generated {} }", {ReadingModel()}, "models: 'toy'" + seeds)
          .problems,
      ElementsAre(HasSubstr("1000100 tasks; at most 1000000")));
}

TEST(NeedlesResolve, AreASourceOfPromptsAmongOthers) {
  const FakeCatalogue world({ReadingModel()}, {Books()});
  const std::string detect =
      "name: 'x' model: 'toy' slash_detection { threshold: 0.9 prompts { needle { context_lengths: [128, "
      "256] "
      "depths: 0.5 samples_per_cell: 5 haystack { corpus { name: 'books' } } } } }";
  const ResolvedExperiment experiment = Resolved(detect, world);
  FakeReadings none;
  const StagePlan plan = PlanOf(experiment, ContextOf(world.Models(), world.Corpora()), 1, none);
  ASSERT_EQ(plan.size(), 2u);
  const v1::PromptBlock& second = plan[1].measurement.slash_profile().prompts();
  EXPECT_EQ(second.samples().first_sample(), 8);
  EXPECT_EQ(second.needle().samples_size(), 2);
  EXPECT_EQ(second.needle().samples(1).context_length(), 256);
  EXPECT_EQ(second.needle().samples(1).index(), 4);
  EXPECT_EQ(second.needle().use(), v1::NeedlePrompts::TEST);
  EXPECT_EQ(second.needle().corpus(), std::string(64, 'e'));
  EXPECT_EQ(second.needle().corpus_documents(), 10);
  EXPECT_EQ(second.needle().bos_token_id(), 1);
  EXPECT_THAT(
      ProblemsOf("name: 'x' model: 'toy' slash_detection { threshold: 0.9 offsets { last: 70 } prompts { "
                 "needle { context_lengths: [128, 256] haystack { generated {} } } } }",
                 world),
      ElementsAre(HasSubstr("a prompt of 64 tokens")));
}

}  // namespace
}  // namespace ropelab::experiments
