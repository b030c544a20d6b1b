#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/experiments/ood_test.h"
#include "server/experiments/prompts.h"

namespace ropelab::experiments {
namespace {

constexpr char kInner[] = "slash_detection";
constexpr char kDetection[] = "ood_test.detection";
constexpr char kOther[] = "ood_test.out_of_distribution";
constexpr int64_t kDefaultPrompts = 500;  // the slash paper, section 4.1

// What a detection says of itself, said of the field that it stands in.
void Rename(const Problems& from, const std::string& field, Problems& to) {
  for (const v1::FieldProblem& problem : from.problems()) {
    const bool inner = absl::StartsWith(problem.field(), kInner);
    to.Add(inner ? absl::StrCat(field, problem.field().substr(sizeof(kInner) - 1)) : problem.field(),
           problem.value(), absl::StrReplaceAll(problem.remedy(), {{kInner, field}}));
  }
  for (const std::string& warning : from.warnings()) {
    to.Warn(absl::StrReplaceAll(warning, {{kInner, field}}));
  }
}

// As many random tokens as the detection's prompts have, where nothing else is said.
void DefaultPrompts(v1::OodTest& test, const PromptShape& shape, Problems& problems) {
  if (test.out_of_distribution().source_case() == v1::PromptSource::SOURCE_NOT_SET) {
    test.mutable_out_of_distribution()->mutable_uniform_tokens();
  }
  if (!test.out_of_distribution().has_uniform_tokens()) {
    return;
  }
  v1::UniformTokens& uniform = *test.mutable_out_of_distribution()->mutable_uniform_tokens();
  if (!uniform.has_count()) {
    uniform.set_count(kDefaultPrompts);
  }
  if (uniform.has_tokens()) {
    return;
  }
  if (shape.shortest != shape.longest) {
    problems.Add(absl::StrCat(kOther, ".uniform_tokens.tokens"), "",
                 absl::StrCat("the detection's prompts have ", shape.shortest, " to ", shape.longest,
                              " tokens; say how many the random prompts shall have"));
    return;
  }
  uniform.set_tokens(shape.longest);
}

}  // namespace

v1::ExperimentSpec InDistribution(const v1::ExperimentSpec& spec) {
  v1::ExperimentSpec detection = spec;
  const v1::SlashDetection inner = spec.ood_test().detection();
  *detection.mutable_slash_detection() = inner;
  return detection;
}

v1::ExperimentSpec OutOfDistribution(const v1::ExperimentSpec& spec) {
  v1::ExperimentSpec detection = InDistribution(spec);
  *detection.mutable_slash_detection()->mutable_prompts() = spec.ood_test().out_of_distribution();
  detection.mutable_slash_detection()->clear_maps();
  return detection;
}

std::vector<MeasuredRange> OutOfDistributionRanges(const v1::ExperimentSpec& spec) {
  return {MeasuredRanges(OutOfDistribution(spec).slash_detection()).front()};
}

void OodTestExperiment::Resolve(v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) const {
  const SlashDetectionExperiment detection;
  Problems found;
  v1::ExperimentSpec in = InDistribution(spec);
  detection.Resolve(in, facts, found);
  Rename(found, kDetection, problems);
  if (!problems.empty()) {
    return;
  }
  v1::OodTest& test = *spec.mutable_ood_test();
  *test.mutable_detection() = in.slash_detection();
  DefaultPrompts(test, *ShapeOf(test.detection().prompts()), problems);
  if (!problems.empty()) {
    return;
  }
  // The second half has every offset, threshold and mean from the first: what can be wrong now are its
  // prompts, or that they are too short for the offsets.
  Problems other;
  v1::ExperimentSpec out = OutOfDistribution(spec);
  detection.Resolve(out, facts, other);
  Problems of_prompts;
  for (const v1::FieldProblem& problem : other.problems()) {
    const std::string prompts = absl::StrCat(kInner, ".prompts");
    const bool inner = absl::StartsWith(problem.field(), prompts);
    of_prompts.Add(inner ? absl::StrCat(kInner, problem.field().substr(prompts.size())) : kInner,
                   problem.value(), problem.remedy());
  }
  Rename(of_prompts, kOther, problems);
  *test.mutable_out_of_distribution() = out.slash_detection().prompts();
}

v1::Estimate OodTestExperiment::Cost(const v1::ExperimentSpec& spec, const Facts& facts) const {
  const SlashDetectionExperiment detection;
  v1::Estimate estimate = detection.Cost(InDistribution(spec), facts);
  const v1::Estimate other = detection.Cost(OutOfDistribution(spec), facts);
  const int64_t ranges =
      static_cast<int64_t>(MeasuredRanges(OutOfDistribution(spec).slash_detection()).size());
  // The control's range is not measured again; where there is one, it is half of the other prompts' work.
  estimate.set_tasks(estimate.tasks() + other.tasks() / ranges);
  estimate.set_device_seconds(estimate.device_seconds() +
                              other.device_seconds() / static_cast<double>(ranges));
  estimate.set_reading_bytes(estimate.reading_bytes() + other.reading_bytes() / ranges);
  estimate.set_basis(absl::StrCat("in distribution: ", estimate.basis(),
                                  "; out of it, if a head is found: ", other.basis()));
  return estimate;
}

}  // namespace ropelab::experiments
