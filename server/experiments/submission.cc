// ResolveSubmission: from what was typed to experiments that can be planned, or to all that is wrong with
// them.
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "common/service/canonical_hash.h"
#include "server/experiments/field_order.h"
#include "server/experiments/head_set.h"
#include "server/experiments/kinds.h"
#include "server/experiments/spec_rules.h"
#include "server/experiments/strict_walk.h"

namespace ropelab::experiments {
namespace {

constexpr int kMostExperiments = 256;

// Gives `spec` what the study says and it does not. Returns the names of the fields that it took over, so
// that what is wrong with them is said of the study.
std::set<std::string> ApplyDefaults(const v1::StudySpec& study, v1::ExperimentSpec& spec) {
  std::set<std::string> inherited;
  const auto take = [&](const char* field, bool wanted, auto&& assign) {
    if (wanted) {
      assign();
      inherited.insert(field);
    }
  };
  const Kind* kind = FindKind(KindOf(spec));
  const bool takes_model = kind == nullptr || kind->needs_model;
  const bool takes_dtype = (takes_model || kind->names_models) && (kind == nullptr || !kind->names_dtypes);
  const bool names_model = !spec.model().empty() || spec.models_size() > 0;
  take("name", spec.name().empty() && !study.name().empty(), [&] { spec.set_name(study.name()); });
  take("model", takes_model && !names_model && !study.model().empty(),
       [&] { spec.set_model(study.model()); });
  take("models", takes_model && !names_model && study.models_size() > 0,
       [&] { *spec.mutable_models() = study.models(); });
  take("dtype", takes_dtype && !spec.has_dtype() && study.has_dtype(),
       [&] { spec.set_dtype(study.dtype()); });
  take("priority", !spec.has_priority() && study.has_priority(),
       [&] { spec.set_priority(study.priority()); });
  take("seeds", spec.seeds_size() == 0 && study.seeds_size() > 0,
       [&] { *spec.mutable_seeds() = study.seeds(); });
  take("numerics", spec.numerics().empty() && !study.numerics().empty(),
       [&] { spec.set_numerics(study.numerics()); });
  take("tags", spec.tags_size() == 0 && study.tags_size() > 0, [&] { *spec.mutable_tags() = study.tags(); });
  return inherited;
}

// `typed` has the study's defaults already; `known` is all that is known. Paths of `problems` start at the
// experiment.
ResolvedExperiment ResolveOne(const v1::ExperimentSpec& typed, const Facts& known, Problems& problems) {
  ResolvedExperiment result;
  result.typed = typed;
  result.resolved = typed;
  result.kind = KindOf(typed);
  StrictWalk(typed, "", "", problems);
  const Kind* kind = FindKind(result.kind);
  const Facts facts = {ResolveCommon(result.resolved, kind, known.models, problems), known.corpora,
                       known.scores};
  if (kind == nullptr) {
    problems.Add("kind", "", absl::StrCat("the spec says no experiment; this version runs ", BuiltKinds()));
    return result;
  }
  if (kind->experiment == nullptr) {
    problems.Add(result.kind, "",
                 absl::StrCat("is not built in this version; this version runs ", BuiltKinds()));
    return result;
  }
  WriteHeadSetDefaults(result.resolved, facts);
  kind->experiment->Resolve(result.resolved, facts, problems);
  result.warnings = problems.warnings();
  if (problems.empty()) {
    result.spec_hash = CanonicalHash(result.resolved);
    result.estimate = kind->experiment->Cost(result.resolved, facts);
    result.estimate.set_experiment(result.resolved.name());
    result.estimate.set_kind(result.kind);
    result.estimate.mutable_warnings()->Assign(result.warnings.begin(), result.warnings.end());
  }
  return result;
}

void AddAll(const std::vector<v1::FieldProblem>& from, const std::string& prefix,
            const std::set<std::string>& inherited, std::set<std::string>& said, Problems& to) {
  for (const v1::FieldProblem& problem : from) {
    const bool of_study = inherited.count(TopField(problem.field())) > 0;
    const std::string path = of_study ? problem.field() : absl::StrCat(prefix, problem.field());
    if (!of_study || said.insert(path).second) {
      to.Add(path, problem.value(), problem.remedy());
    }
  }
}

// "experiments.detect." where the name tells which one, else "experiments[1].".
std::vector<std::string> PrefixesOf(const v1::StudySpec& study) {
  std::map<std::string, int> uses;
  for (const v1::ExperimentSpec& spec : study.experiments()) {
    ++uses[spec.name()];
  }
  std::vector<std::string> prefixes;
  for (int i = 0; i < study.experiments_size(); ++i) {
    const std::string& name = study.experiments(i).name();
    const bool tells = !name.empty() && name.size() <= kLongestString && IsUtf8(name) && uses[name] == 1;
    prefixes.push_back(tells ? absl::StrCat("experiments.", name, ".")
                             : absl::StrCat("experiments[", i, "]."));
  }
  return prefixes;
}

// What experiments take from each other; of those that resolve, since the others have enough to say.
void CheckAllReferences(const ResolvedSubmission& submission, std::vector<Problems>& found) {
  std::vector<v1::ExperimentSpec> resolved;
  for (const ResolvedExperiment& experiment : submission.experiments) {
    resolved.push_back(experiment.resolved);
  }
  for (size_t i = 0; i < resolved.size(); ++i) {
    if (found[i].empty()) {
      CheckReferences(resolved, i, found[i]);
    }
  }
}

void ResolveStudy(const v1::StudySpec& study, const Facts& known, ResolvedSubmission& result,
                  Problems& problems) {
  result.is_study = true;
  result.study_name = study.name();
  Problems own;
  StrictWalk(study, "", "experiments", own);
  if (study.experiments_size() == 0) {
    own.Add("experiments", "", "a study holds at least one experiment");
  } else if (study.experiments_size() > kMostExperiments) {
    own.Add("experiments", absl::StrCat(study.experiments_size(), " experiments"),
            absl::StrCat("are too many for one study; at most ", kMostExperiments));
  }
  std::set<std::string> said;
  for (const v1::FieldProblem& problem : InFieldOrder(own.problems(), v1::StudySpec::descriptor())) {
    problems.Add(problem.field(), problem.value(), problem.remedy());
    said.insert(problem.field());
  }
  if (study.experiments_size() > kMostExperiments) {
    return;
  }
  const std::vector<std::string> prefixes = PrefixesOf(study);
  std::set<std::string> names;
  std::vector<Problems> all_found(static_cast<size_t>(study.experiments_size()));
  std::vector<std::set<std::string>> all_inherited;
  for (int i = 0; i < study.experiments_size(); ++i) {
    v1::ExperimentSpec typed = study.experiments(i);
    std::set<std::string>& inherited = all_inherited.emplace_back(ApplyDefaults(study, typed));
    Problems& found = all_found[static_cast<size_t>(i)];
    if (typed.name().empty()) {
      found.Add("name", "", "an experiment of a study needs a name, which others refer to");
    } else if (!names.insert(typed.name()).second) {
      found.Add("name", typed.name(), "is the name of an earlier experiment too; give each its own");
      inherited.erase("name");  // the study's name is well; the experiment lacks one of its own
    }
    result.experiments.push_back(ResolveOne(typed, known, found));
  }
  CheckAllReferences(result, all_found);
  for (size_t i = 0; i < all_found.size(); ++i) {
    AddAll(InFieldOrder(all_found[i].problems(), v1::ExperimentSpec::descriptor()), prefixes[i],
           all_inherited[i], said, problems);
  }
}

}  // namespace

ResolvedSubmission ResolveSubmission(const v1::Submission& submission, const Catalogue& catalogue,
                                     Problems& problems) {
  ResolvedSubmission result;
  if (submission.ByteSizeLong() > kLargestSpec) {
    problems.Add("", absl::StrCat(submission.ByteSizeLong(), " bytes"),
                 absl::StrCat("the spec is too large; at most ", kLargestSpec, " bytes"));
    return result;
  }
  const Facts known = {catalogue.Models(), catalogue.Corpora(), catalogue.Scores()};
  Problems envelope;
  StrictWalk(submission, "", submission.has_study() ? "study" : "experiment", envelope);
  for (const v1::FieldProblem& problem : envelope.problems()) {
    problems.Add(problem.field(), problem.value(), problem.remedy());
  }
  if (submission.has_study()) {
    ResolveStudy(submission.study(), known, result, problems);
  } else if (submission.has_experiment()) {
    Problems found;
    result.experiments.push_back(ResolveOne(submission.experiment(), known, found));
    if (found.empty()) {
      CheckReferences({result.experiments.front().resolved}, 0, found);
    }
    std::set<std::string> said;
    AddAll(InFieldOrder(found.problems(), v1::ExperimentSpec::descriptor()), "", {}, said, problems);
  } else {
    problems.Add("", "", "the submission holds neither an experiment nor a study");
  }
  for (const ResolvedExperiment& experiment : result.experiments) {
    for (const std::string& warning : experiment.warnings) {
      problems.Warn(result.is_study ? absl::StrCat(experiment.resolved.name(), ": ", warning) : warning);
    }
  }
  if (problems.empty()) {
    result.submission_hash = CanonicalHash(submission);
  }
  return result;
}

}  // namespace ropelab::experiments
