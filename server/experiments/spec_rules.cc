#include "server/experiments/spec_rules.h"

#include <algorithm>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/experiments/model_names.h"

namespace ropelab::experiments {
namespace {

constexpr size_t kLongestName = 200;  // bytes
constexpr size_t kLongestTag = 64;
constexpr int kMostTags = 32;
constexpr int kMostSeeds = 64;
constexpr int kMostModels = 64;

bool HasControlCharacter(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

void CheckName(const std::string& name, Problems& problems) {
  if (name.size() > kLongestName) {
    problems.Add("name", absl::StrCat(name.size(), " bytes"),
                 absl::StrCat("is too long; at most ", kLongestName, " bytes"));
  } else if (HasControlCharacter(name)) {
    problems.Add("name", name, "holds a control character; a name is one line of text");
  }
}

void CheckTags(const v1::ExperimentSpec& spec, Problems& problems) {
  if (spec.tags_size() > kMostTags) {
    problems.Add("tags", absl::StrCat(spec.tags_size(), " tags"),
                 absl::StrCat("are too many; at most ", kMostTags));
  }
  std::set<std::string> seen;
  for (int i = 0; i < spec.tags_size(); ++i) {
    const std::string& tag = spec.tags(i);
    const std::string path = absl::StrCat("tags[", i, "]");
    if (tag.empty() || tag.size() > kLongestTag || HasControlCharacter(tag)) {
      problems.Add(path, tag, absl::StrCat("a tag is 1 to ", kLongestTag, " bytes of text on one line"));
    } else if (!seen.insert(tag).second) {
      problems.Add(path, tag, "stands there twice; name it once");
    }
  }
}

void ResolveSeeds(v1::ExperimentSpec& spec, Problems& problems) {
  if (spec.seeds_size() == 0) {
    spec.add_seeds(kDefaultSeed);
  }
  if (spec.seeds_size() > kMostSeeds) {
    problems.Add("seeds", absl::StrCat(spec.seeds_size(), " seeds"),
                 absl::StrCat("are too many; at most ", kMostSeeds));
  }
  std::set<uint64_t> seen;
  for (int i = 0; i < spec.seeds_size(); ++i) {
    const std::string path = absl::StrCat("seeds[", i, "]");
    if (spec.seeds(i) > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      problems.Add(path, absl::StrCat(spec.seeds(i)),
                   "does not fit a table's 64-bit integer; use one below 2^63");
    } else if (!seen.insert(spec.seeds(i)).second) {
      problems.Add(path, absl::StrCat(spec.seeds(i)),
                   "stands there twice; each seed is one set of results, so name it once");
    }
  }
}

void CheckNumerics(const std::string& numerics, Problems& problems) {
  const bool hex = std::all_of(numerics.begin(), numerics.end(), [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
  if (!numerics.empty() && (numerics.size() != 16 || !hex)) {
    problems.Add("numerics", numerics,
                 "a numerics class is 16 lower-case hex digits, as `ropelab workers` shows them");
  }
}

void CheckDtype(const v1::ExperimentSpec& spec, const Kind* kind, Problems& problems) {
  if (!spec.has_dtype()) {
    return;
  }
  const std::string typed = v1::Dtype::Value_Name(spec.dtype());
  if (kind != nullptr && kind->experiment != nullptr && kind->names_dtypes) {
    problems.Add(
        "dtype", typed,
        absl::StrCat(std::string(kind->field), " loads the weights in its own dtypes; leave it out"));
  } else if (kind != nullptr && kind->experiment != nullptr && !kind->needs_model && !kind->names_models) {
    problems.Add("dtype", typed,
                 absl::StrCat(std::string(kind->field), " needs no model, so no dtype; leave it out"));
  }
}

// Refuses what contradicts itself before any name is looked up.
bool MayNameModels(const v1::ExperimentSpec& spec, const Kind* kind, Problems& problems) {
  if (!spec.model().empty() && spec.models_size() > 0) {
    problems.Add("models", absl::StrJoin(spec.models(), ", "),
                 "model and models exclude each other; keep one");
    return false;
  }
  const bool named = !spec.model().empty() || spec.models_size() > 0;
  if (kind == nullptr || kind->experiment == nullptr) {
    return true;  // named or not: its own problem comes first
  }
  if (!kind->needs_model && named) {
    problems.Add(
        spec.model().empty() ? "models" : "model",
        spec.model().empty() ? absl::StrJoin(spec.models(), ", ") : spec.model(),
        kind->names_models
            ? absl::StrCat(std::string(kind->field), " measures its checkpoints' models; leave it out")
            : absl::StrCat(std::string(kind->field), " runs without a model in this version; leave it out"));
    return false;
  }
  return true;
}

// Where a sweep names its models. They become the spec's, so that everything that reads what an experiment
// runs on finds them in one place; a sweep of equal folders would say nothing, so each stands there once.
std::vector<std::string> TakeCheckpoints(v1::ExperimentSpec& spec) {
  std::vector<std::string> paths;
  for (int i = 0; i < spec.checkpoint_sweep().checkpoints_size(); ++i) {
    spec.add_models(spec.checkpoint_sweep().checkpoints(i).model());
    paths.push_back(absl::StrCat("checkpoint_sweep.checkpoints[", i, "].model"));
  }
  return paths;
}

std::vector<ModelFacts> ResolveModels(v1::ExperimentSpec& spec, const Kind* kind,
                                      const std::vector<ModelFacts>& known, Problems& problems) {
  if (!MayNameModels(spec, kind, problems)) {
    return {};
  }
  const std::vector<std::string> checkpoints =
      kind != nullptr && kind->experiment != nullptr && kind->names_models ? TakeCheckpoints(spec)
                                                                           : std::vector<std::string>();
  const bool single = !spec.model().empty();
  if (single) {
    spec.add_models(spec.model());
    spec.clear_model();
  }
  if (spec.models_size() == 0 && kind != nullptr && kind->experiment != nullptr && kind->needs_model) {
    const absl::Status remedy = FindModel(known, "").status();
    problems.Add("model", "", absl::StrCat("name the model to measure: ", std::string(remedy.message())));
  }
  if (spec.models_size() > kMostModels) {
    problems.Add(checkpoints.empty() ? "models" : "checkpoint_sweep.checkpoints",
                 absl::StrCat(spec.models_size(), " models"),
                 absl::StrCat("are too many; at most ", kMostModels));
    return {};
  }
  std::vector<ModelFacts> models;
  std::set<std::string> seen;
  for (int i = 0; i < spec.models_size(); ++i) {
    const std::string path = !checkpoints.empty() ? checkpoints[static_cast<size_t>(i)]
                             : single             ? "model"
                                                  : absl::StrCat("models[", i, "]");
    const std::string typed = spec.models(i);
    absl::StatusOr<ModelFacts> model = FindModel(known, typed);
    if (!model.ok()) {
      problems.Add(
          path, typed,
          absl::StrCat(typed.empty() ? "name the model: " : "", std::string(model.status().message())));
    } else if (!seen.insert(absl::StrCat(model->name, "@", model->config_hash, "@", model->weights_hash))
                    .second) {
      problems.Add(path, typed, "is named twice; name each model once");
    } else {
      spec.set_models(i, ModelLabel(typed, *model));
      if (!checkpoints.empty()) {
        spec.mutable_checkpoint_sweep()->mutable_checkpoints(i)->set_model(spec.models(i));
      }
      models.push_back(*model);
    }
  }
  return models;
}

// Written out only where one word says it: models of different dtypes each keep their own.
void ResolveDtype(v1::ExperimentSpec& spec, const std::vector<ModelFacts>& models) {
  if (spec.has_dtype() || models.empty()) {
    return;
  }
  const v1::Dtype::Value first = DtypeOf(spec, models[0]);
  if (std::all_of(models.begin(), models.end(),
                  [&](const ModelFacts& model) { return DtypeOf(spec, model) == first; })) {
    spec.set_dtype(first);
  }
}

}  // namespace

std::string KindOf(const v1::ExperimentSpec& spec) {
  if (spec.kind_case() == v1::ExperimentSpec::KIND_NOT_SET) {
    return "";
  }
  return v1::ExperimentSpec::descriptor()->FindFieldByNumber(spec.kind_case())->name();
}

std::string BuiltKinds() {
  std::vector<std::string> built;
  for (const Kind& kind : Kinds()) {
    if (kind.experiment != nullptr) {
      built.emplace_back(kind.field);
    }
  }
  return absl::StrJoin(built, ", ");
}

std::vector<ModelFacts> ResolveCommon(v1::ExperimentSpec& spec, const Kind* kind,
                                      const std::vector<ModelFacts>& known, Problems& problems) {
  CheckName(spec.name(), problems);
  std::vector<ModelFacts> models = ResolveModels(spec, kind, known, problems);
  CheckDtype(spec, kind, problems);
  if (kind == nullptr || !kind->names_dtypes) {
    ResolveDtype(spec, models);
  }
  if (!spec.has_priority()) {
    spec.set_priority(v1::Priority::NORMAL);
  }
  ResolveSeeds(spec, problems);
  CheckNumerics(spec.numerics(), problems);
  CheckTags(spec, problems);
  return models;
}

}  // namespace ropelab::experiments
