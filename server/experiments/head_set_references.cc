// Which experiments of a study a spec takes its heads from.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "server/experiments/head_set.h"
#include "server/experiments/spec_rules.h"

namespace ropelab::experiments {
namespace {

struct Reference {
  std::string path, experiment;                   // the path is the set's
  const v1::RetrievalHeads* retrieval = nullptr;  // else slash-dominant heads

  std::string Field() const { return path + ".experiment"; }
};

void Collect(const google::protobuf::Message& message, const std::string& path,
             std::vector<Reference>& references) {
  if (const auto* slash = dynamic_cast<const v1::SlashDominantHeads*>(&message); slash != nullptr) {
    references.push_back({path, slash->experiment()});
    return;
  }
  if (const auto* retrieval = dynamic_cast<const v1::RetrievalHeads*>(&message); retrieval != nullptr) {
    references.push_back({path, retrieval->experiment(), retrieval});
    return;
  }
  const google::protobuf::Reflection* reflection = message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const auto* field : fields) {
    if (field->message_type() == nullptr) {
      continue;
    }
    const std::string name = path.empty() ? field->name() : absl::StrCat(path, ".", field->name());
    if (!field->is_repeated()) {
      Collect(reflection->GetMessage(message, field), name, references);
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      Collect(reflection->GetRepeatedMessage(message, field, i), absl::StrCat(name, "[", i, "]"), references);
    }
  }
}

std::vector<Reference> ReferencesOf(const v1::ExperimentSpec& spec) {
  std::vector<Reference> references;
  Collect(spec, "", references);
  return references;
}

const v1::ExperimentSpec* Named(const std::vector<v1::ExperimentSpec>& specs, const std::string& name) {
  const auto found =
      std::find_if(specs.begin(), specs.end(), [&](const auto& spec) { return spec.name() == name; });
  return found == specs.end() ? nullptr : &*found;
}

// Whether `from` refers to `target`, over whatever stands between.
bool Reaches(const std::vector<v1::ExperimentSpec>& specs, const v1::ExperimentSpec& from,
             const std::string& target, std::set<std::string>& seen) {
  for (const std::string& name : ReferredExperiments(from)) {
    if (name == target) {
      return true;
    }
    const v1::ExperimentSpec* next = Named(specs, name);
    if (next != nullptr && seen.insert(name).second && Reaches(specs, *next, target, seen)) {
      return true;
    }
  }
  return false;
}

// Whether the other experiment finds such heads at all.
bool CheckKind(const v1::ExperimentSpec& source, const Reference& reference, Problems& problems) {
  const std::string kind = KindOf(source);
  if (reference.retrieval == nullptr && kind != "slash_detection" && kind != "ood_test") {
    problems.Add(
        reference.Field(), reference.experiment,
        absl::StrCat("is a ", kind, ", which finds no slash-dominant heads; name a slash_detection"));
    return false;
  }
  if (reference.retrieval != nullptr && kind != "retrieval_detection") {
    problems.Add(reference.Field(), reference.experiment,
                 absl::StrCat("is a ", kind, ", which finds no retrieval heads; name a retrieval_detection"));
    return false;
  }
  return true;
}

void CheckMetric(const v1::ExperimentSpec& source, const Reference& reference, Problems& problems) {
  const auto& metrics = source.retrieval_detection().metrics();
  const v1::Metric::Value metric = reference.retrieval->metric();
  if (std::find(metrics.begin(), metrics.end(), static_cast<int>(metric)) != metrics.end()) {
    return;
  }
  problems.Add(reference.path + ".metric", v1::Metric::Value_Name(metric),
               absl::StrCat("is not measured by ", reference.experiment, ", which has ",
                            absl::StrJoin(metrics, ", ",
                                          [](std::string* out, int one) {
                                            absl::StrAppend(out, v1::Metric::Value_Name(
                                                                     static_cast<v1::Metric::Value>(one)));
                                          }),
                            "; add it to its metrics, or name one of these"));
}

// Models and seeds of `spec` that `source` does not run.
void CheckCovered(const v1::ExperimentSpec& spec, const v1::ExperimentSpec& source,
                  const Reference& reference, Problems& problems) {
  for (const std::string& model : spec.models()) {
    if (std::find(source.models().begin(), source.models().end(), model) == source.models().end()) {
      problems.Add(reference.Field(), reference.experiment,
                   absl::StrCat("does not run model ", model, ", so it finds no heads of it; it runs ",
                                absl::StrJoin(source.models(), ", ")));
    }
  }
  for (const uint64_t seed : spec.seeds()) {
    if (std::find(source.seeds().begin(), source.seeds().end(), seed) == source.seeds().end()) {
      problems.Add(reference.Field(), reference.experiment,
                   absl::StrCat("does not run seed ", seed, "; give both experiments the same seeds"));
    }
  }
}

}  // namespace

std::vector<std::string> ReferredExperiments(const v1::ExperimentSpec& spec) {
  std::vector<std::string> names;
  for (const Reference& reference : ReferencesOf(spec)) {
    if (std::find(names.begin(), names.end(), reference.experiment) == names.end()) {
      names.push_back(reference.experiment);
    }
  }
  return names;
}

void CheckReferences(const std::vector<v1::ExperimentSpec>& resolved, size_t index, Problems& problems) {
  const v1::ExperimentSpec& spec = resolved[index];
  for (const Reference& reference : ReferencesOf(spec)) {
    if (reference.experiment.empty()) {
      continue;  // said already
    }
    const v1::ExperimentSpec* source = Named(resolved, reference.experiment);
    if (resolved.size() == 1 || source == nullptr) {
      std::vector<std::string> names;
      for (const v1::ExperimentSpec& other : resolved) {
        if (&other != &spec) {
          names.push_back(other.name());
        }
      }
      problems.Add(reference.Field(), reference.experiment,
                   names.empty() ? "is no experiment of this submission: submit both as one study (what an "
                                   "earlier one measured is not measured again)"
                                 : absl::StrCat("is no other experiment of this study; it has ",
                                                absl::StrJoin(names, ", ")));
      continue;
    }
    std::set<std::string> seen;
    if (source == &spec || Reaches(resolved, *source, spec.name(), seen)) {
      problems.Add(reference.Field(), reference.experiment,
                   "takes its heads from this experiment in turn; one of them must come first");
      continue;
    }
    if (!CheckKind(*source, reference, problems)) {
      continue;
    }
    if (reference.retrieval != nullptr) {
      CheckMetric(*source, reference, problems);
    }
    CheckCovered(spec, *source, reference, problems);
  }
}

}  // namespace ropelab::experiments
