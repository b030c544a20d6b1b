// A small world for the experiments' tests: models that no worker holds, specs from text, readings that were
// never measured.
#pragma once

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "server/experiments/kinds.h"

namespace ropelab::experiments {

// Two layers of four heads, 100 tokens of vocabulary, prompts of at most 1024 tokens, BOS 1, specials 0 to 2.
inline ModelFacts ToyModel(const std::string& name = "toy") {
  ModelFacts model;
  model.name = name;
  model.weights_hash = std::string(64, 'a');
  model.config_hash = std::string(64, 'b');
  model.bytes = 400000;
  v1::ModelConfig& config = model.config;
  config.set_family("llama");
  config.set_layers(2);
  config.set_query_heads(4);
  config.set_kv_heads(2);
  config.set_head_dim(16);
  config.set_hidden_size(64);
  config.set_vocabulary(100);
  config.set_max_positions(1024);
  for (const int32_t id : {2, 0, 1}) {
    config.add_special_token_ids(id);
  }
  config.set_bos_token_id(1);
  config.set_dtype(v1::Dtype::FLOAT32);
  config.set_parameters(100000);
  return model;
}

// The same with a tokenizer, which puts BOS first.
inline ModelFacts ReadingModel(const std::string& name = "toy", char tokenizer = 'd') {
  ModelFacts model = ToyModel(name);
  model.tokenizer_hash = std::string(64, tokenizer);
  model.config.set_has_tokenizer(true);
  model.config.set_tokenizer_adds_bos(true);
  return model;
}

// Ten documents, lines with the texts "text" and "title".
inline CorpusFacts Books(const std::string& name = "books", char hash = 'e') {
  CorpusFacts corpus;
  corpus.name = name;
  corpus.sha256 = std::string(64, hash);
  corpus.kind = "jsonl";
  corpus.documents = 10;
  corpus.bytes = 5000;
  corpus.text_fields = {"title", "text"};
  return corpus;
}

class FakeCatalogue : public Catalogue {
 public:
  explicit FakeCatalogue(std::vector<ModelFacts> models = {ToyModel()}, std::vector<CorpusFacts> corpora = {},
                         std::vector<ImportedScores> scores = {})
      : models_(std::move(models)), corpora_(std::move(corpora)), scores_(std::move(scores)) {}
  std::vector<ModelFacts> Models() const override { return models_; }
  std::vector<CorpusFacts> Corpora() const override { return corpora_; }
  std::vector<ImportedScores> Scores() const override { return scores_; }

 private:
  std::vector<ModelFacts> models_;
  std::vector<CorpusFacts> corpora_;
  std::vector<ImportedScores> scores_;
};

template <typename Spec>
Spec FromText(const std::string& text) {
  Spec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

inline v1::Submission ExperimentOf(const std::string& text) {
  v1::Submission submission;
  *submission.mutable_experiment() = FromText<v1::ExperimentSpec>(text);
  return submission;
}

inline v1::Submission StudyOf(const std::string& text) {
  v1::Submission submission;
  *submission.mutable_study() = FromText<v1::StudySpec>(text);
  return submission;
}

// "field: remedy" of every problem.
inline std::vector<std::string> ProblemsOf(const v1::Submission& submission,
                                           const FakeCatalogue& catalogue = FakeCatalogue()) {
  Problems problems;
  ResolveSubmission(submission, catalogue, problems);
  std::vector<std::string> lines;
  for (const v1::FieldProblem& problem : problems.problems()) {
    lines.push_back(problem.field() + ": " + problem.remedy());
  }
  return lines;
}

inline std::vector<std::string> ProblemsOf(const std::string& experiment,
                                           const FakeCatalogue& catalogue = FakeCatalogue()) {
  return ProblemsOf(ExperimentOf(experiment), catalogue);
}

// The one experiment of `text`, which must resolve.
inline ResolvedExperiment Resolved(const std::string& text,
                                   const FakeCatalogue& catalogue = FakeCatalogue()) {
  Problems problems;
  ResolvedSubmission result = ResolveSubmission(ExperimentOf(text), catalogue, problems);
  for (const v1::FieldProblem& problem : problems.problems()) {
    ADD_FAILURE() << problem.field() << " (" << problem.value() << "): " << problem.remedy();
  }
  return result.experiments.at(0);
}

// Readings by stage and task, in the order they were put in.
class FakeReadings : public StageReadings {
 public:
  void Add(int64_t stage, const v1::Measurement& measurement, std::vector<v1::Reading> readings) {
    stages_[stage].emplace_back(measurement, std::move(readings));
  }
  absl::Status ForEach(
      int64_t stage,
      absl::FunctionRef<absl::Status(int64_t, const v1::Measurement&, const v1::Reading&)> visit) override {
    int64_t index = 0;
    for (const auto& [measurement, readings] : stages_[stage]) {
      for (const v1::Reading& reading : readings) {
        if (absl::Status status = visit(index, measurement, reading); !status.ok()) {
          return status;
        }
      }
      ++index;
    }
    return absl::OkStatus();
  }

 private:
  std::map<int64_t, std::vector<std::pair<v1::Measurement, std::vector<v1::Reading>>>> stages_;
};

inline Context ContextOf(std::vector<ModelFacts> models, std::vector<CorpusFacts> corpora = {}) {
  return Context{std::move(models), std::move(corpora), "0123456789abcdef"};
}

// The tasks of a stage that must be planned.
inline StagePlan PlanOf(const ResolvedExperiment& experiment, const Context& context, int64_t stage,
                        StageReadings& readings) {
  auto plan = FindKind(experiment.kind)->experiment->Plan(experiment.resolved, context, stage, readings);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() && plan->has_value() ? **plan : StagePlan();
}

inline const Table& TableNamed(const Results& results, const std::string& name) {
  for (const Table& table : results.tables) {
    if (table.slice.table() == name) {
      return table;
    }
  }
  ADD_FAILURE() << "no table " << name;
  static const Table none;
  return none;
}

inline const v1::Column& ColumnNamed(const Table& table, const std::string& name) {
  for (const v1::Column& column : table.slice.columns()) {
    if (column.name() == name) {
      return column;
    }
  }
  ADD_FAILURE() << "no column " << name;
  static const v1::Column none;
  return none;
}

inline bool NullAt(const v1::Column& column, int row) {
  return column.null_size() > 0 && column.null(row);
}

}  // namespace ropelab::experiments
