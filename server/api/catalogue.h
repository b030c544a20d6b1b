// Every model that a worker ever announced and every corpus registered, as a spec's resolution sees them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ropelab/v1/experiment_service.pb.h"
#include "ropelab/v1/spec.pb.h"
#include "server/experiments/experiment.h"
#include "server/store/models.h"
#include "server/store/store.h"

namespace ropelab::api {

// A line of store::ExperimentRow::models: name@weights_hash+tokenizer_hash. The first hash is empty while no
// worker has computed it, the second where the model has no tokenizer; a line without + was written before
// tokenizers told models apart, and means any.
struct ModelLine {
  std::string name, weights_hash;
  std::optional<std::string> tokenizer_hash = std::nullopt;
};
ModelLine ParseModelLine(const std::string& line);
std::string FormatModelLine(const ModelLine& line);
// What people are shown of it: name@weights_hash, or the name alone.
std::string ShownModelLine(const std::string& line);

// By name, the last registered first; each looked at, as to whether it can be read now.
absl::StatusOr<std::vector<experiments::CorpusFacts>> ReadCorpora(store::Store& store);

class StoredCatalogue : public experiments::Catalogue {
 public:
  StoredCatalogue() = default;
  explicit StoredCatalogue(std::vector<store::ModelRow> rows,
                           std::vector<experiments::CorpusFacts> corpora = {},
                           std::vector<experiments::ImportedScores> scores = {})
      : rows_(std::move(rows)), corpora_(std::move(corpora)), scores_(std::move(scores)) {}
  // Head scores, which take longest to read, only for a submission that names some.
  static absl::StatusOr<StoredCatalogue> Read(store::Store& store, const v1::Submission& submission);

  // One entry per (name, config hash, weights hash, tokenizer hash), so a name may come several times;
  // without those that a worker has since replaced.
  std::vector<experiments::ModelFacts> Models() const override;
  std::vector<experiments::CorpusFacts> Corpora() const override { return corpora_; }
  std::vector<experiments::ImportedScores> Scores() const override { return scores_; }
  // The ModelLines of a resolved spec, in its order.
  std::string ModelLines(const v1::ExperimentSpec& resolved) const;

 private:
  std::vector<store::ModelRow> rows_;
  std::vector<experiments::CorpusFacts> corpora_;
  std::vector<experiments::ImportedScores> scores_;
};

}  // namespace ropelab::api
