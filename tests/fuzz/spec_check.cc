#include "tests/fuzz/spec_check.h"

#include <string>
#include <vector>

#include "common/printable.h"
#include "common/service/canonical_hash.h"
#include "server/experiments/kinds.h"
#include "server/experiments/strict_walk.h"
#include "tests/fuzz/temporary_folder.h"

namespace ropelab::fuzz {
namespace {

using experiments::CorpusFacts;
using experiments::ModelFacts;

constexpr int64_t kMostTasks = 64;  // a larger plan takes its time and shows nothing more

ModelFacts SmallModel(const std::string& name, bool tokenizer) {
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
  config.set_intermediate_size(96);
  config.set_vocabulary(100);
  config.set_max_positions(1024);
  config.add_special_token_ids(1);
  config.set_bos_token_id(1);
  config.set_dtype(v1::Dtype::FLOAT32);
  config.set_parameters(100000);
  for (int pair = 0; pair < 8; ++pair) config.add_inv_freq(1.0 / (1 << pair));
  for (int layer = 0; layer < 2; ++layer) config.add_sliding_window(layer == 0 ? 0 : 256);
  if (tokenizer) {
    model.tokenizer_hash = std::string(64, 'd');
    config.set_has_tokenizer(true);
    config.set_tokenizer_adds_bos(true);
  }
  return model;
}

class SmallCatalogue : public experiments::Catalogue {
 public:
  std::vector<ModelFacts> Models() const override {
    return {SmallModel("planted", false), SmallModel("toy", true)};
  }
  std::vector<CorpusFacts> Corpora() const override {
    return {{.name = "novels",
             .sha256 = std::string(64, 'e'),
             .kind = "jsonl",
             .documents = 10,
             .bytes = 5000,
             .text_fields = {"body", "text"},
             .problem = ""}};
  }
};

// The first stage has none to read.
class NoReadings : public experiments::StageReadings {
 public:
  absl::Status ForEach(
      int64_t,
      absl::FunctionRef<absl::Status(int64_t, const v1::Measurement&, const v1::Reading&)>) override {
    return absl::OkStatus();
  }
};

void CheckProblems(const experiments::Problems& problems) {
  // Problems travel to the client: they must be text, whatever was sent.
  for (const v1::FieldProblem& problem : problems.problems()) {
    ROPELAB_FUZZ_CHECK(!problem.remedy().empty());
    ROPELAB_FUZZ_CHECK(IsUtf8(problem.field()) && IsUtf8(problem.value()) && IsUtf8(problem.remedy()));
  }
}

void CheckPlan(const experiments::ResolvedExperiment& experiment, const SmallCatalogue& catalogue) {
  const v1::Estimate& estimate = experiment.estimate;
  ROPELAB_FUZZ_CHECK(estimate.tasks() >= 0 && estimate.reading_bytes() >= 0 && estimate.result_bytes() >= 0);
  ROPELAB_FUZZ_CHECK(estimate.device_seconds() >= 0);
  if (estimate.tasks() > kMostTasks) return;
  experiments::Context context;
  for (const ModelFacts& model : catalogue.Models()) {
    const v1::ExperimentSpec& spec = experiment.resolved;
    if (spec.model() == model.name || spec.model().starts_with(model.name + "@")) context.models = {model};
  }
  context.corpora = catalogue.Corpora();
  NoReadings none;
  const experiments::Kind* kind = experiments::FindKind(experiment.kind);
  if (kind->needs_model && context.models.empty()) return;  // several models, or none
  (void)kind->experiment->Plan(experiment.resolved, context, 1, none);
}

}  // namespace

bool CheckSubmission(const v1::Submission& submission) {
  experiments::Problems walked;
  experiments::StrictWalk(submission, "", "", walked);
  CheckProblems(walked);
  const SmallCatalogue catalogue;
  experiments::Problems problems;
  const experiments::ResolvedSubmission resolved =
      experiments::ResolveSubmission(submission, catalogue, problems);
  CheckProblems(problems);
  if (!walked.empty()) ROPELAB_FUZZ_CHECK(!problems.empty());
  if (problems.empty()) {
    for (const experiments::ResolvedExperiment& experiment : resolved.experiments)
      CheckPlan(experiment, catalogue);
  }
  if (!walked.empty()) return false;
  v1::Submission again;
  ROPELAB_FUZZ_CHECK(again.ParseFromString(submission.SerializeAsString()));
  ROPELAB_FUZZ_CHECK(CanonicalHash(again) == CanonicalHash(submission));
  return true;
}

}  // namespace ropelab::fuzz
