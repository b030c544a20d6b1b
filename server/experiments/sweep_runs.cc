#include "server/experiments/sweep_runs.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/cost.h"
#include "server/experiments/model_names.h"
#include "server/experiments/utility_statistics.h"
#include "server/statistics/permutation.h"

namespace ropelab::experiments {
namespace {

constexpr int64_t kBytesPerNorm = 8;      // of a reading
constexpr int64_t kBytesPerUtility = 64;  // of a row of a result table, as stored

absl::StatusOr<FoundNeedles> Find(const v1::RetrievalDetection& detection, const v1::ExperimentSpec& spec,
                                  const Context& context, int64_t stage, StageReadings& readings) {
  const std::vector<uint64_t> seeds(spec.seeds().begin(), spec.seeds().end());
  return FindNeedles(detection.needles(), v1::NeedlePrompts::DETECTION, seeds, context.models, context, stage,
                     readings);
}

// Where a task of the measuring stage stands.
class Layout {
 public:
  Layout(const FoundNeedles& found, size_t seeds) {
    for (size_t seed = 0; seed < seeds; ++seed) {
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + found.Blocks(seed));
    }
  }
  int64_t tasks() const { return (ends_.empty() ? 0 : ends_.back()) + 1; }  // of one run
  size_t RunOf(int64_t task) const { return static_cast<size_t>(task / tasks()); }
  // The place of the task's seed; nullopt: it measures query rows.
  std::optional<size_t> SeedOf(int64_t task) const {
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), task % tasks());
    return end == ends_.end() ? std::nullopt : std::optional<size_t>(end - ends_.begin());
  }

 private:
  std::vector<int64_t> ends_;  // of the seeds' tasks within a run
};

SweepRun EmptyRun(const v1::RetrievalDetection& detection, const v1::ExperimentSpec& spec,
                  const Context& context, size_t model) {
  SweepRun run;
  run.model = &context.models[model];
  run.label = spec.models(static_cast<int>(model));
  run.dtype = DtypeOf(spec, *run.model);
  const v1::ModelConfig& config = run.model->config;
  run.seeds.assign(static_cast<size_t>(spec.seeds_size()), DetectionScores(detection, config));
  run.utilities = Utilities(config.layers(), config.query_heads(), config.head_dim());
  return run;
}

absl::Status CheckComplete(const SweepRun& run, const FoundNeedles& found) {
  for (size_t seed = 0; seed < run.seeds.size(); ++seed) {
    const int64_t wanted = static_cast<int64_t>(found.seeds[seed].kept.size());
    if (run.seeds[seed].cells()[0].samples != wanted) {
      return absl::InternalError(absl::StrCat("model ", run.label, " gave ",
                                              run.seeds[seed].cells()[0].samples, " needle samples, but ",
                                              wanted, " were planned"));
    }
  }
  return run.utilities.complete()
             ? absl::OkStatus()
             : absl::InternalError(absl::StrCat("model ", run.label, " did not give its query rows"));
}

}  // namespace

absl::StatusOr<std::optional<StagePlan>> PlanRuns(const v1::RetrievalDetection& detection,
                                                  std::span<const v1::ExperimentSpec> variants,
                                                  const Context& context, int64_t stage,
                                                  StageReadings& readings) {
  ROPELAB_ASSIGN_OR_RETURN(FoundNeedles found, Find(detection, variants[0], context, stage, readings));
  if (!found.before.empty()) {
    return std::optional<StagePlan>(std::move(found.before));
  }
  if (stage > found.stages + 1) {
    return std::optional<StagePlan>();
  }
  StagePlan plan;
  for (const v1::ExperimentSpec& spec : variants) {
    for (const ModelFacts& model : context.models) {
      ROPELAB_ASSIGN_OR_RETURN(const v1::ModelIdentity identity, IdentityOf(spec, model));
      for (size_t seed = 0; seed < found.seeds.size(); ++seed) {
        for (int64_t block = 0; block < found.Blocks(seed); ++block) {
          plan.push_back(DetectionTask(detection, identity, model.name, found.Block(model, seed, block)));
        }
      }
      ROPELAB_ASSIGN_OR_RETURN(PlannedTask rows, UtilityTask(spec, model, /*fold_norm=*/false));
      plan.push_back(std::move(rows));
    }
  }
  return std::optional<StagePlan>(std::move(plan));
}

absl::StatusOr<SweepReadings> ReadRuns(const v1::RetrievalDetection& detection,
                                       std::span<const v1::ExperimentSpec> variants, const Context& context,
                                       StageReadings& readings) {
  const v1::ExperimentSpec& first = variants[0];
  if (context.models.size() != static_cast<size_t>(first.models_size())) {
    return absl::InternalError(absl::StrCat("the spec names ", first.models_size(), " models, but ",
                                            context.models.size(), " were given to reduce it"));
  }
  ROPELAB_ASSIGN_OR_RETURN(const FoundNeedles found,
                           Find(detection, first, context, std::numeric_limits<int64_t>::max(), readings));
  SweepReadings result;
  for (const v1::ExperimentSpec& spec : variants) {
    for (size_t model = 0; model < context.models.size(); ++model) {
      result.runs.push_back(EmptyRun(detection, spec, context, model));
    }
  }
  NeedleSamplesTable samples;
  const Layout layout(found, found.seeds.size());
  ROPELAB_RETURN_IF_ERROR(readings.ForEach(
      found.stages + 1,
      [&](int64_t task, const v1::Measurement& measurement, const v1::Reading& reading) -> absl::Status {
        if (layout.RunOf(task) >= result.runs.size()) {
          return absl::InternalError(absl::StrCat("task ", task, " is not of this plan"));
        }
        SweepRun& run = result.runs[layout.RunOf(task)];
        const std::optional<size_t> seed = layout.SeedOf(task);
        if (!seed.has_value()) {
          return reading.has_query_row_norms()
                     ? run.utilities.Add(reading.query_row_norms())
                     : absl::InternalError(absl::StrCat("task ", task, " gave no query rows"));
        }
        ROPELAB_RETURN_IF_ERROR(run.seeds[*seed].Add(measurement, reading));
        const v1::RealisedNeedle& realised = reading.needle_heads().realised();
        ROPELAB_ASSIGN_OR_RETURN(const v1::NeedleSample sample,
                                 NeedleSampleOf(measurement.needle_attention().prompts(), realised.sample()));
        samples.AddKept(run.label, v1::Dtype::Value_Name(run.dtype), context.numerics_class,
                        first.seeds(static_cast<int>(*seed)), sample, realised);
        return absl::OkStatus();
      }));
  for (const SweepRun& run : result.runs) {
    ROPELAB_RETURN_IF_ERROR(CheckComplete(run, found));
    for (size_t seed = 0; seed < found.seeds.size(); ++seed) {
      for (const v1::NeedleSample& dropped : found.seeds[seed].dropped) {
        samples.AddDropped(run.label, v1::Dtype::Value_Name(run.dtype), context.numerics_class,
                           first.seeds(static_cast<int>(seed)), dropped);
      }
    }
  }
  result.needle_samples = samples.Finish();
  return result;
}

void CheckRunSizes(const v1::RetrievalDetection& detection, const std::string& path, int64_t dtypes,
                   const v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) {
  CheckDetectionSizes(detection, path, dtypes, spec, facts, problems);
  const int64_t tests = int64_t{spec.seeds_size()} * detection.metrics_size() *
                        static_cast<int64_t>(ThresholdsOf(detection).size());
  int64_t rows = 0;
  double labels = 0;
  for (const ModelFacts& model : facts.models) {
    const int64_t heads = model.config.layers() * model.config.query_heads() * dtypes;
    rows += heads * (model.config.head_dim() + 1);
    labels += static_cast<double>(heads * tests) * static_cast<double>(statistics::kPermutations);
  }
  if (rows > kMostUtilityRows) {
    problems.Add(spec.has_checkpoint_sweep() ? "checkpoint_sweep.checkpoints" : "models",
                 absl::StrCat(facts.models.size(), " models"),
                 absl::StrCat("give ", rows, " rows of utilities; at most ", kMostUtilityRows,
                              ": fewer models or dtypes"));
  }
  if (labels > kMostLabels) {
    problems.Add("seeds", absl::StrCat(spec.seeds_size(), " seeds"),
                 absl::StrCat("over all heads, models, metrics and thresholds deal out ", labels,
                              " labels in the utility test's permutations; at most ", kMostLabels,
                              ": fewer seeds, metrics or models"));
  }
}

v1::Estimate CostOfRuns(const v1::RetrievalDetection& detection, std::span<const v1::ExperimentSpec> variants,
                        const Facts& facts) {
  v1::Estimate estimate;
  double flops = 0;
  const int64_t seeds = variants[0].seeds_size();
  for (size_t variant = 0; variant < variants.size(); ++variant) {
    for (const ModelFacts& model : facts.models) {
      flops += AddDetectionCost(detection, seeds, model, estimate);
      const int64_t heads = model.config.layers() * model.config.query_heads();
      estimate.set_tasks(estimate.tasks() + 1);
      estimate.set_reading_bytes(estimate.reading_bytes() + heads * model.config.head_dim() * kBytesPerNorm);
      estimate.set_result_bytes(estimate.result_bytes() +
                                heads * (model.config.head_dim() + 1) * kBytesPerUtility);
    }
  }
  AddNeedleStage(detection.needles(), seeds, facts.models, estimate);
  SetDeviceSeconds(flops, estimate);
  estimate.set_basis(absl::StrCat(estimate.basis(), "; realising the needles is not counted"));
  return estimate;
}

}  // namespace ropelab::experiments
