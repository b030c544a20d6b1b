#include "server/experiments/corpus_stages.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/philox.h"
#include "common/status_macros.h"
#include "server/experiments/corpus_names.h"
#include "server/experiments/prompts.h"

namespace ropelab::experiments {
namespace {

constexpr int64_t kMostTasks = 1000000;

// Tokens of documents, without special ones, by tokenizer.
using Lengths = std::map<std::string, std::unordered_map<int64_t, int64_t>>;

class Follower {
 public:
  Follower(const v1::CorpusPrompts& prompts, const v1::ExperimentSpec& spec, const Context& context,
           const CorpusFacts& corpus)
      : prompts_(prompts), spec_(spec), context_(context), corpus_(corpus) {}

  absl::StatusOr<CorpusStages> Follow(int64_t stage, StageReadings& readings) {
    CorpusStages result;
    result.corpus = corpus_.sha256;
    result.in_corpus = corpus_.documents;
    for (int64_t next = 1;; ++next) {
      result.choices.assign(context_.models.size() * seeds(), {});
      ROPELAB_ASSIGN_OR_RETURN(result.lengths, ChooseOrAsk(next, result.choices));
      if (result.lengths.empty() || next == stage) {
        return result;
      }
      ROPELAB_RETURN_IF_ERROR(Read(next, readings));
      ++result.lengths_stages;
    }
  }

 private:
  size_t seeds() const { return static_cast<size_t>(spec_.seeds_size()); }

  // Documents of the order that are asked for up to and including a stage.
  int64_t AskedUpTo(int64_t stage) const {
    int64_t asked = stage < 1 ? 0 : std::min(prompts_.count(), corpus_.documents);
    for (int64_t k = 1; k < stage && asked < corpus_.documents; ++k) {
      asked = std::min(2 * asked, corpus_.documents);
    }
    return asked;
  }

  // With the lengths of the stages before `next`: the choices of those that are settled, and the tasks that
  // the others need.
  absl::StatusOr<StagePlan> ChooseOrAsk(int64_t next, std::vector<CorpusChoice>& choices) const {
    const int64_t known = AskedUpTo(next - 1);
    StagePlan plan;
    std::set<std::pair<std::string, std::vector<int64_t>>> planned;
    for (size_t s = 0; s < seeds(); ++s) {
      const std::vector<int64_t> order = CorpusOrder(spec_.seeds(static_cast<int>(s)), corpus_.documents);
      const std::span<const int64_t> asked(order.data(), static_cast<size_t>(known));
      for (size_t m = 0; m < context_.models.size(); ++m) {
        const ModelFacts& model = context_.models[m];
        CorpusChoice& choice = choices[m * seeds() + s];
        ROPELAB_ASSIGN_OR_RETURN(choice, Choose(asked, model));
        if (static_cast<int64_t>(choice.documents.size()) == prompts_.count()) {
          continue;
        }
        if (known == corpus_.documents) {
          return TooFew(choice, model);
        }
        Ask(std::span(order).subspan(asked.size(), static_cast<size_t>(AskedUpTo(next) - known)), model,
            planned, plan);
        if (static_cast<int64_t>(plan.size()) > kMostTasks) {
          return absl::ResourceExhaustedError(
              absl::StrCat("corpus ", corpus_.name, ": finding prompts takes more than ", kMostTasks,
                           " tasks in one stage; name fewer seeds, or a corpus of longer documents"));
        }
      }
    }
    return plan;
  }

  int64_t TextTokens(const ModelFacts& model) const {
    return prompts_.tokens() - (StartsWithBos(prompts_.bos(), model) ? 1 : 0);
  }

  absl::StatusOr<CorpusChoice> Choose(std::span<const int64_t> asked, const ModelFacts& model) const {
    CorpusChoice choice;
    const auto of_tokenizer = lengths_.find(model.tokenizer_hash);
    for (const int64_t document : asked) {
      if (static_cast<int64_t>(choice.documents.size()) == prompts_.count()) {
        break;
      }
      const bool measured = of_tokenizer != lengths_.end() && of_tokenizer->second.count(document) > 0;
      if (!measured) {
        return absl::InternalError(absl::StrCat("the stages of text lengths gave no length of document ",
                                                document, " of corpus ", corpus_.name, " for model ",
                                                model.name));
      }
      ++choice.read;
      if (of_tokenizer->second.at(document) >= TextTokens(model)) {
        choice.documents.push_back(document);
      } else {
        ++choice.skipped;
      }
    }
    return choice;
  }

  // Models with one tokenizer share a task, and so do seeds that happen to ask for the same documents.
  void Ask(std::span<const int64_t> documents, const ModelFacts& model,
           std::set<std::pair<std::string, std::vector<int64_t>>>& planned, StagePlan& plan) const {
    for (size_t first = 0; first < documents.size(); first += kDocumentsPerTask) {
      const auto part =
          documents.subspan(first, std::min<size_t>(kDocumentsPerTask, documents.size() - first));
      if (!planned.emplace(model.tokenizer_hash, std::vector<int64_t>(part.begin(), part.end())).second) {
        continue;
      }
      PlannedTask task;
      task.model = model.name;
      task.measurement.mutable_model()->set_tokenizer_hash(model.tokenizer_hash);
      v1::TextLengths& lengths = *task.measurement.mutable_text_lengths();
      lengths.set_corpus(corpus_.sha256);
      lengths.set_text_field(prompts_.text_field());
      lengths.mutable_documents()->Assign(part.begin(), part.end());
      plan.push_back(std::move(task));
    }
  }

  absl::Status Read(int64_t stage, StageReadings& readings) {
    return readings.ForEach(stage,
                            [&](int64_t task_index, const v1::Measurement& measurement,
                                const v1::Reading& reading) -> absl::Status {
                              const v1::DocumentLengths& found = reading.document_lengths();
                              if (!measurement.has_text_lengths() || !reading.has_document_lengths() ||
                                  found.documents_size() != found.tokens_size()) {
                                return absl::InternalError(absl::StrCat("task ", task_index, " of stage ",
                                                                        stage, " gave no text lengths"));
                              }
                              auto& lengths = lengths_[measurement.model().tokenizer_hash()];
                              for (int i = 0; i < found.documents_size(); ++i) {
                                lengths[found.documents(i)] = found.tokens(i);
                              }
                              return absl::OkStatus();
                            });
  }

  absl::Status TooFew(const CorpusChoice& choice, const ModelFacts& model) const {
    return absl::FailedPreconditionError(absl::StrCat(
        "corpus ", corpus_.name, ": ", choice.documents.size(), " of its ", corpus_.documents,
        " documents have the ", TextTokens(model), " tokens that a prompt of ", prompts_.tokens(),
        StartsWithBos(prompts_.bos(), model) ? " (BOS included)" : "", " takes with the tokenizer of model ",
        model.name, ", and ", prompts_.count(), " are needed; ", choice.skipped,
        " were skipped as too short; ask for fewer or shorter prompts, or register a corpus of longer "
        "documents"));
  }

  const v1::CorpusPrompts& prompts_;
  const v1::ExperimentSpec& spec_;
  const Context& context_;
  const CorpusFacts& corpus_;
  Lengths lengths_;
};

}  // namespace

absl::StatusOr<CorpusStages> FollowCorpus(const v1::CorpusPrompts& prompts, const v1::ExperimentSpec& spec,
                                          const Context& context, int64_t stage, StageReadings& readings) {
  ROPELAB_ASSIGN_OR_RETURN(const CorpusFacts corpus, FindResolvedCorpus(context.corpora, prompts.name()));
  for (const ModelFacts& model : context.models) {
    if (model.tokenizer_hash.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("model ", model.name, " has no tokenizer any more; put its tokenizer.json back"));
    }
  }
  return Follower(prompts, spec, context, corpus).Follow(stage, readings);
}

std::vector<int64_t> CorpusOrder(uint64_t seed, int64_t documents) {
  std::vector<int64_t> order(static_cast<size_t>(documents));
  std::iota(order.begin(), order.end(), int64_t{0});
  Philox(seed, Purpose::kCorpusOrder, 0).Shuffle(std::span(order));
  return order;
}

v1::PromptBlock CorpusBlockOf(const v1::CorpusPrompts& prompts, const std::string& corpus,
                              const CorpusChoice& choice, const ModelFacts& model, int64_t block) {
  v1::PromptBlock result;
  *result.mutable_samples() = BlockOf(block, prompts.count());
  v1::CorpusDocuments& documents = *result.mutable_corpus();
  documents.set_corpus(corpus);
  documents.set_text_field(prompts.text_field());
  documents.set_tokens(prompts.tokens());
  for (int64_t i = 0; i < result.samples().count(); ++i) {
    documents.add_documents(choice.documents[static_cast<size_t>(result.samples().first_sample() + i)]);
  }
  if (StartsWithBos(prompts.bos(), model)) {
    documents.set_bos_token_id(model.config.bos_token_id());
  }
  return result;
}

}  // namespace ropelab::experiments
