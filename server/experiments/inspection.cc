#include "server/experiments/inspection.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "server/experiments/cost.h"
#include "server/experiments/inspection_edits.h"
#include "server/experiments/model_names.h"

namespace ropelab::experiments {
namespace {

constexpr int kMostTokens = 4096;
constexpr int64_t kLargestDump = int64_t{256} << 20;  // bytes

// The tensors that may be dumped, with their element counts for a prompt of T tokens.
struct Tensor {
  const char* name;
  int64_t bytes_per_element;
  double (*elements)(const v1::ModelConfig& config, double t);
};
const std::vector<Tensor>& Tensors() {
  static const std::vector<Tensor> tensors = {
      {"attn_probs", 4,
       [](const v1::ModelConfig& c, double t) { return 1.0 * c.layers() * c.query_heads() * t * t; }},
      {"hidden", 4,
       [](const v1::ModelConfig& c, double t) { return 1.0 * (c.layers() + 1) * t * c.hidden_size(); }},
      {"input_ids", 8, [](const v1::ModelConfig&, double t) { return t; }},
      {"inv_freq", 4, [](const v1::ModelConfig& c, double) { return c.head_dim() / 2.0; }},
      {"k_pre", 4,
       [](const v1::ModelConfig& c, double t) { return 1.0 * c.layers() * c.kv_heads() * t * c.head_dim(); }},
      {"k_rot", 4,
       [](const v1::ModelConfig& c, double t) { return 1.0 * c.layers() * c.kv_heads() * t * c.head_dim(); }},
      {"logits", 4, [](const v1::ModelConfig& c, double t) { return t * c.vocabulary(); }},
      {"q_pre", 4,
       [](const v1::ModelConfig& c, double t) {
         return 1.0 * c.layers() * c.query_heads() * t * c.head_dim();
       }},
      {"q_rot", 4,
       [](const v1::ModelConfig& c, double t) {
         return 1.0 * c.layers() * c.query_heads() * t * c.head_dim();
       }},
  };
  return tensors;
}

const Tensor* FindTensor(const std::string& name) {
  for (const Tensor& tensor : Tensors()) {
    if (name == tensor.name) {
      return &tensor;
    }
  }
  return nullptr;
}

std::string TensorNames() {
  return absl::StrJoin(Tensors(), ", ",
                       [](std::string* out, const Tensor& tensor) { out->append(tensor.name); });
}

double DumpBytes(const v1::Inspection& inspection, const v1::ModelConfig& config) {
  double bytes = 0;
  for (const std::string& name : inspection.dump()) {
    const Tensor* tensor = FindTensor(name);
    if (tensor != nullptr) {
      bytes += static_cast<double>(tensor->bytes_per_element) *
               tensor->elements(config, static_cast<double>(inspection.token_ids().ids_size()));
    }
  }
  return bytes;
}

void CheckIds(const v1::TokenIds& ids, const std::vector<ModelFacts>& models, Problems& problems) {
  const int count = ids.ids_size();
  if (count < 1 || count > kMostTokens) {
    problems.Add("inspection.token_ids.ids", count == 0 ? "" : absl::StrCat(count, " ids"),
                 absl::StrCat("give 1 to ", kMostTokens, " token ids"));
    return;
  }
  for (const ModelFacts& model : models) {
    if (count > model.config.max_positions()) {
      problems.Add("inspection.token_ids.ids", absl::StrCat(count, " ids"),
                   absl::StrCat("model ", model.name, " takes prompts of at most ",
                                model.config.max_positions(), " tokens"));
    }
    for (int i = 0; i < count; ++i) {
      if (ids.ids(i) < 0 || ids.ids(i) >= model.config.vocabulary()) {
        problems.Add(absl::StrCat("inspection.token_ids.ids[", i, "]"), absl::StrCat(ids.ids(i)),
                     absl::StrCat("is outside the vocabulary of model ", model.name, ": 0 to ",
                                  model.config.vocabulary() - 1));
        break;  // the first one tells enough
      }
    }
  }
}

void ResolveDump(v1::Inspection& inspection, Problems& problems) {
  if (inspection.dump_size() == 0) {
    inspection.add_dump("logits");
  }
  std::set<std::string> names;
  for (int i = 0; i < inspection.dump_size(); ++i) {
    const std::string path = absl::StrCat("inspection.dump[", i, "]");
    if (FindTensor(inspection.dump(i)) == nullptr) {
      problems.Add(path, inspection.dump(i), absl::StrCat("is no tensor; say one of ", TensorNames()));
    } else if (!names.insert(inspection.dump(i)).second) {
      problems.Add(path, inspection.dump(i), "is named twice; name each tensor once");
    }
  }
  inspection.mutable_dump()->Assign(names.begin(), names.end());  // their order moves nothing
}

}  // namespace

void InspectionExperiment::Resolve(v1::ExperimentSpec& spec, const Facts& facts, Problems& problems) const {
  v1::Inspection& inspection = *spec.mutable_inspection();
  if (spec.models_size() > 1) {
    problems.Add("models", absl::StrJoin(spec.models(), ", "),
                 "an inspection takes one model; submit once for each");
  }
  if (spec.seeds_size() > 1) {
    problems.Add("seeds", absl::StrCat(spec.seeds_size(), " seeds"),
                 "make no difference to given token ids; name one or none");
  }
  CheckIds(inspection.token_ids(), facts.models, problems);
  ResolveDump(inspection, problems);
  ResolveInterventions(inspection, facts, problems);
  for (const ModelFacts& model : facts.models) {
    const double bytes = DumpBytes(inspection, model.config);
    if (bytes > static_cast<double>(kLargestDump)) {
      problems.Add("inspection.dump", absl::StrJoin(inspection.dump(), ", "),
                   absl::StrCat("make ", bytes / (1 << 20), " MiB for model ", model.name, "; at most ",
                                kLargestDump >> 20, " MiB: fewer tensors or tokens"));
    }
  }
}

absl::StatusOr<std::optional<StagePlan>> InspectionExperiment::Plan(const v1::ExperimentSpec& spec,
                                                                    const Context& context, int64_t stage,
                                                                    StageReadings&) const {
  if (stage > 1) {
    return std::optional<StagePlan>();
  }
  if (context.models.size() != 1) {
    return absl::InternalError(
        absl::StrCat("an inspection is planned with one model, not ", context.models.size()));
  }
  PlannedTask task;
  ROPELAB_ASSIGN_OR_RETURN(*task.measurement.mutable_model(), IdentityOf(spec, context.models[0]));
  task.model = context.models[0].name;
  v1::InspectionTensors& tensors = *task.measurement.mutable_inspection();
  *tensors.mutable_token_ids() = spec.inspection().token_ids();
  *tensors.mutable_dump() = spec.inspection().dump();
  ROPELAB_RETURN_IF_ERROR(PlanInterventions(spec, context, tensors));
  StagePlan plan;
  plan.push_back(std::move(task));
  return std::optional<StagePlan>(std::move(plan));
}

absl::StatusOr<Results> InspectionExperiment::Reduce(const v1::ExperimentSpec&, const Context&,
                                                     StageReadings& readings) const {
  Results results;
  ROPELAB_RETURN_IF_ERROR(
      readings.ForEach(1, [&](int64_t, const v1::Measurement&, const v1::Reading& reading) -> absl::Status {
        for (const v1::ArtifactName& artifact : reading.artifacts()) {
          v1::ArtifactInfo& info = results.artifacts.emplace_back();
          info.set_name(artifact.name());
          info.set_sha256(artifact.sha256());
          info.set_bytes(artifact.bytes());
        }
        return absl::OkStatus();
      }));
  if (results.artifacts.size() != 1) {
    return absl::InternalError(
        absl::StrCat("an inspection gives one file of tensors, not ", results.artifacts.size()));
  }
  return results;
}

v1::Estimate InspectionExperiment::Cost(const v1::ExperimentSpec& spec, const Facts& facts) const {
  v1::Estimate estimate;
  estimate.set_tasks(1);
  double flops = 0;
  for (const ModelFacts& model : facts.models) {
    const int64_t bytes = static_cast<int64_t>(DumpBytes(spec.inspection(), model.config));
    estimate.set_reading_bytes(estimate.reading_bytes() + bytes);
    flops += ForwardFlops(model, spec.inspection().token_ids().ids_size());
  }
  estimate.set_result_bytes(estimate.reading_bytes());
  SetDeviceSeconds(flops, estimate);
  return estimate;
}

}  // namespace ropelab::experiments
