#include "server/api/catalogue.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "server/api/head_score_sets.h"
#include "server/experiments/head_set_imported.h"
#include "server/experiments/model_names.h"
#include "server/store/corpora.h"

namespace ropelab::api {
namespace {

constexpr size_t kProblemBytes = 2000;

}  // namespace

ModelLine ParseModelLine(const std::string& line) {
  const size_t at = line.rfind('@');
  if (at == std::string::npos) {
    return {line, ""};
  }
  const std::string hashes = line.substr(at + 1);
  const size_t plus = hashes.find('+');
  ModelLine parsed = {line.substr(0, at), hashes.substr(0, plus)};
  if (plus != std::string::npos) {
    parsed.tokenizer_hash = hashes.substr(plus + 1);
  }
  return parsed;
}

std::string FormatModelLine(const ModelLine& line) {
  return absl::StrCat(line.name, "@", line.weights_hash,
                      line.tokenizer_hash.has_value() ? absl::StrCat("+", *line.tokenizer_hash) : "");
}

std::string ShownModelLine(const std::string& line) {
  const ModelLine parsed = ParseModelLine(line);
  return parsed.weights_hash.empty() ? parsed.name : absl::StrCat(parsed.name, "@", parsed.weights_hash);
}

absl::StatusOr<std::vector<experiments::CorpusFacts>> ReadCorpora(store::Store& store) {
  std::vector<store::CorpusRow> rows;
  ROPELAB_RETURN_IF_ERROR(store.Read([&](store::Connection& db) -> absl::Status {
    ROPELAB_ASSIGN_OR_RETURN(rows, store::ListCorpora(db));
    return absl::OkStatus();
  }));
  std::vector<experiments::CorpusFacts> corpora;
  for (const store::CorpusRow& row : rows) {
    experiments::CorpusFacts& facts = corpora.emplace_back();
    facts.name = row.name;
    facts.sha256 = row.sha256;
    facts.kind = row.kind;
    facts.documents = row.documents;
    facts.bytes = row.bytes;
    facts.text_fields = row.text_fields;
    facts.problem = Printable(store.corpora().Problem(row), kProblemBytes);
  }
  return corpora;
}

absl::StatusOr<StoredCatalogue> StoredCatalogue::Read(store::Store& store, const v1::Submission& submission) {
  std::vector<store::ModelRow> rows;
  ROPELAB_RETURN_IF_ERROR(store.Read([&](store::Connection& db) -> absl::Status {
    ROPELAB_ASSIGN_OR_RETURN(rows, store::KnownModels(db));
    return absl::OkStatus();
  }));
  ROPELAB_ASSIGN_OR_RETURN(std::vector<experiments::CorpusFacts> corpora, ReadCorpora(store));
  std::vector<experiments::ImportedScores> scores;
  if (const auto named = experiments::ImportedNames(submission); !named.empty()) {
    ROPELAB_ASSIGN_OR_RETURN(scores, ReadHeadScores(store, named));
  }
  return StoredCatalogue(std::move(rows), std::move(corpora), std::move(scores));
}

std::vector<experiments::ModelFacts> StoredCatalogue::Models() const {
  std::vector<experiments::ModelFacts> models;
  for (const store::ModelRow& row : store::WithoutReplaced(rows_)) {
    const v1::ModelAnnouncement& known = row.announcement;
    experiments::ModelFacts& facts = models.emplace_back();
    facts.name = known.name();
    facts.weights_hash = known.weights_hash();
    facts.config_hash = known.config_hash();
    facts.tokenizer_hash = known.tokenizer_hash();
    facts.bytes = known.bytes();
    facts.config = known.config();
    facts.problem = known.problem();
  }
  return models;
}

std::string StoredCatalogue::ModelLines(const v1::ExperimentSpec& resolved) const {
  std::vector<std::string> references(resolved.models().begin(), resolved.models().end());
  if (!resolved.model().empty()) {
    references.insert(references.begin(), resolved.model());
  }
  const std::vector<experiments::ModelFacts> known = Models();
  return absl::StrJoin(references, "\n", [&known](std::string* out, const std::string& typed) {
    const absl::StatusOr<experiments::ModelFacts> model = experiments::FindModel(known, typed);
    // Resolution found it a moment ago, in this very catalogue.
    absl::StrAppend(
        out, FormatModelLine(model.ok() ? ModelLine{model->name, model->weights_hash, model->tokenizer_hash}
                                        : ModelLine{typed, ""}));
  });
}

}  // namespace ropelab::api
