// What an experiment kind is to the server: three pure functions. No SQL, no gRPC, no clock, no torch.
//
//   Resolve  spec as typed -> spec with every default filled in, or field problems
//   Plan     resolved spec and the readings of earlier stages -> the tasks of the next stage
//   Reduce   resolved spec and all readings -> result tables and artifacts
//
// The kinds stand in one table, kinds.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ropelab/v1/experiment_service.pb.h"
#include "ropelab/v1/measurement.pb.h"
#include "ropelab/v1/model.pb.h"
#include "ropelab/v1/reading.pb.h"
#include "ropelab/v1/results.pb.h"
#include "ropelab/v1/spec.pb.h"

namespace ropelab::experiments {

// A model that a spec names. weights_hash is empty until a worker computed it: Resolve works without, Plan
// needs it.
struct ModelFacts {
  std::string name;
  std::string weights_hash, config_hash, tokenizer_hash;
  int64_t bytes = 0;
  v1::ModelConfig config;
  std::string
      problem;  // why its directory cannot be loaded, as announced; a spec that names it is refused with this
};

// A registered corpus. Several may bear one name with different content; the last registered comes first.
struct CorpusFacts {
  std::string name, sha256;
  std::string kind;  // "text" or "jsonl"
  int64_t documents = 0, bytes = 0;
  std::vector<std::string> text_fields;  // of a jsonl corpus: what its first line has
  std::string problem;  // why it cannot be read now; a spec that names it is refused with this
};

// Scores of heads that somebody published and `ropelab heads import` registered. Several may bear one name
// with different content; the last registered comes first.
struct ImportedScores {
  struct Head {
    int64_t layer = 0, head = 0;
    double mean = 0;  // over its scores
    int64_t scores = 0;
  };
  std::string name, sha256;
  std::vector<Head> heads;  // ascending by layer and head
};

// Every model ever announced, every corpus and every set of scores registered, for Resolve.
class Catalogue {
 public:
  virtual ~Catalogue() = default;
  virtual std::vector<ModelFacts> Models() const = 0;
  virtual std::vector<CorpusFacts> Corpora() const = 0;
  virtual std::vector<ImportedScores> Scores() const { return {}; }
};

// What Resolve may look at: the spec's models in its order, as far as they were found, and every corpus.
struct Facts {
  std::vector<ModelFacts> models;
  std::vector<CorpusFacts> corpora;
  std::vector<ImportedScores> scores = {};
};

class Problems {
 public:
  void Add(std::string field, std::string value, std::string remedy);
  void Warn(std::string sentence);
  bool empty() const { return problems_.empty(); }
  const std::vector<v1::FieldProblem>& problems() const { return problems_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  std::vector<v1::FieldProblem> problems_;
  std::vector<std::string> warnings_;
};

// The readings of the stages that are complete, in plan order.
class StageReadings {
 public:
  virtual ~StageReadings() = default;
  // Calls `visit` for every reading of a stage (from 1): tasks in plan order (task_index from 0), readings in
  // sequence.
  virtual absl::Status ForEach(
      int64_t stage, absl::FunctionRef<absl::Status(int64_t task_index, const v1::Measurement& measurement,
                                                    const v1::Reading& reading)>
                         visit) = 0;
};

struct PlannedTask {
  v1::Measurement measurement;
  std::string model;  // announced name for placement; empty without a model
};
using StagePlan = std::vector<PlannedTask>;

struct Table {
  v1::TableSlice slice;           // all rows, sorted by key columns
  std::vector<int64_t> sql_rows;  // those that SQL holds; ignored when whole_in_sql
  bool whole_in_sql = true;
};
// A file that reducing made.
struct MadeArtifact {
  std::string name, bytes;
};
struct Results {
  std::vector<Table> tables;
  std::vector<v1::ArtifactInfo> artifacts;  // already in the artifact folder, named by readings
  std::vector<MadeArtifact> made;
};

// What an earlier experiment of the same study found.
struct EarlierExperiment {
  std::string name, result_digest;
  std::vector<v1::TableSlice> tables;  // those that head sets read (head_set.h), whole
};

// What Plan and Reduce know besides the spec.
struct Context {
  std::vector<ModelFacts> models;           // in the order of the resolved spec's models, with weights hashes
  std::vector<CorpusFacts> corpora;         // every one registered; a resolved spec names them "name@sha256"
  std::string numerics_class;               // Reduce only
  std::vector<ImportedScores> scores = {};  // every one registered; a resolved spec names them "name@sha256"
  std::vector<EarlierExperiment> earlier = {};  // every experiment that the spec refers to
};

class Experiment {
 public:
  virtual ~Experiment() = default;
  // Field paths start at the spec ("slash_detection.offsets.last").
  virtual void Resolve(v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) const = 0;
  // nullopt: no further stage. Stage counts from 1; readings of stages below it may be read.
  virtual absl::StatusOr<std::optional<StagePlan>> Plan(const v1::ExperimentSpec& spec,
                                                        const Context& context, int64_t stage,
                                                        StageReadings& readings) const = 0;
  virtual absl::StatusOr<Results> Reduce(const v1::ExperimentSpec& spec, const Context& context,
                                         StageReadings& readings) const = 0;
  // What a run would cost, without running it.
  virtual v1::Estimate Cost(const v1::ExperimentSpec& spec, const Facts& facts) const = 0;
};

}  // namespace ropelab::experiments
