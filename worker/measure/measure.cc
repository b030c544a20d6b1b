#include <ATen/ATen.h>

#include <array>
#include <new>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/measure/kinds.h"

namespace ropelab::measure {
namespace {

// Every kind of measurement there is. `run` finds in the resources what NeedsOf names; `bytes` gets a null
// model exactly where needs_model is false.
struct Kind {
  v1::Measurement::KindCase kind;
  const char* name;
  bool needs_model;
  absl::StatusOr<Outcome> (*run)(const v1::Measurement&, const Resources&, Recorder&);
  int64_t (*bytes)(const v1::Measurement&, const model::LoadedModel*);
};

constexpr std::array kKinds = {
    Kind{v1::Measurement::kSlashProfile, "slash_profile", true,
         [](const v1::Measurement& m, const Resources& resources, Recorder& recorder) {
           return MeasureSlashProfile(m.slash_profile(), resources, recorder);
         },
         [](const v1::Measurement& m, const model::LoadedModel* model) {
           return SlashProfileBytes(m.slash_profile(), *model);
         }},
    Kind{v1::Measurement::kQueryKeyProfile, "query_key_profile", true,
         [](const v1::Measurement& m, const Resources& resources, Recorder& recorder) {
           return MeasureQueryKeyProfile(m.query_key_profile(), resources, recorder);
         },
         [](const v1::Measurement& m, const model::LoadedModel* model) {
           return QueryKeyProfileBytes(m.query_key_profile(), *model);
         }},
    Kind{v1::Measurement::kWeightProfile, "weight_profile", true,
         [](const v1::Measurement& m, const Resources& resources, Recorder& recorder) {
           return MeasureWeightProfile(m.weight_profile(), *resources.model, recorder);
         },
         [](const v1::Measurement& m, const model::LoadedModel* model) {
           return WeightProfileBytes(m.weight_profile(), *model);
         }},
    Kind{v1::Measurement::kFrequencyProfile, "frequency_profile", true,
         [](const v1::Measurement& m, const Resources& resources, Recorder& recorder) {
           return MeasureFrequencyProfile(m.frequency_profile(), resources, recorder);
         },
         [](const v1::Measurement& m, const model::LoadedModel* model) {
           return FrequencyProfileBytes(m.frequency_profile(), *model);
         }},
    Kind{v1::Measurement::kFrequencyFits, "frequency_fits", true,
         [](const v1::Measurement& m, const Resources& resources, Recorder& recorder) {
           return MeasureFrequencyFits(m.frequency_fits(), resources, recorder);
         },
         [](const v1::Measurement& m, const model::LoadedModel* model) {
           return FrequencyFitsBytes(m.frequency_fits(), *model);
         }},
    Kind{v1::Measurement::kConditionOutcomes, "condition_outcomes", true,
         [](const v1::Measurement& m, const Resources& resources, Recorder& recorder) {
           return MeasureConditionOutcomes(m.condition_outcomes(), resources, recorder);
         },
         [](const v1::Measurement& m, const model::LoadedModel* model) {
           return ConditionOutcomesBytes(m.condition_outcomes(), *model);
         }},
    Kind{v1::Measurement::kNeedleAttention, "needle_attention", true,
         [](const v1::Measurement& m, const Resources& resources, Recorder& recorder) {
           return MeasureNeedleAttention(m.needle_attention(), resources, recorder);
         },
         [](const v1::Measurement& m, const model::LoadedModel* model) {
           return NeedleAttentionBytes(m.needle_attention(), *model);
         }},
    Kind{v1::Measurement::kSampling, "sampling", true,
         [](const v1::Measurement& m, const Resources& resources, Recorder& recorder) {
           return MeasureSampling(m.sampling(), *resources.model, recorder);
         },
         [](const v1::Measurement& m, const model::LoadedModel* model) {
           return SamplingBytes(m.sampling(), *model);
         }},
    Kind{v1::Measurement::kRopeGeometry, "rope_geometry", false,
         [](const v1::Measurement& m, const Resources&, Recorder& recorder) {
           return MeasureRopeGeometry(m.rope_geometry(), recorder);
         },
         [](const v1::Measurement& m, const model::LoadedModel*) {
           return RopeGeometryBytes(m.rope_geometry());
         }},
    Kind{v1::Measurement::kShallowTraining, "shallow_training", false,
         [](const v1::Measurement& m, const Resources&, Recorder& recorder) {
           return MeasureShallowTraining(m.shallow_training(), recorder);
         },
         [](const v1::Measurement& m, const model::LoadedModel*) {
           return ShallowTrainingBytes(m.shallow_training());
         }},
    Kind{v1::Measurement::kInspection, "inspection", true,
         [](const v1::Measurement& m, const Resources& resources, Recorder& recorder) {
           return MeasureInspection(m.inspection(), *resources.model, recorder);
         },
         [](const v1::Measurement& m, const model::LoadedModel* model) {
           return InspectionTensorsBytes(m.inspection(), *model);
         }},
    Kind{v1::Measurement::kTextLengths, "text_lengths", false,
         [](const v1::Measurement& m, const Resources& resources, Recorder& recorder) {
           return MeasureTextLengths(m.text_lengths(), resources, recorder);
         },
         [](const v1::Measurement&, const model::LoadedModel*) { return int64_t{0}; }},
};

absl::StatusOr<const Kind*> FindKind(const v1::Measurement& measurement) {
  for (const Kind& kind : kKinds) {
    if (kind.kind == measurement.kind_case()) return &kind;
  }
  return absl::InvalidArgumentError(
      "the task holds no measurement that this worker knows; a newer server needs a newer worker");
}

absl::Status Admit(const Kind& kind, const v1::Measurement& measurement, const model::LoadedModel* model,
                   const Limits& limits) {
  if (limits.memory_bytes <= 0) return absl::OkStatus();
  const int64_t needed = kind.bytes(measurement, model);
  if (needed <= limits.memory_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(kind.name, " needs up to ", needed >> 20,
                   " MiB beside the weights and this worker may use ", limits.memory_bytes >> 20,
                   " MiB; shorten the prompts or the range of offsets, or give the worker more memory"));
}

absl::Status CheckResources(const Kind& kind, const Needs& needs, const Resources& resources) {
  const char* missing = needs.model && resources.model == nullptr           ? "a model"
                        : needs.tokenizer && resources.tokenizer == nullptr ? "a tokenizer"
                        : needs.texts && resources.texts == nullptr         ? "the texts of a corpus"
                                                                            : nullptr;
  if (missing == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(kind.name, " needs ", missing, " and the task names none"));
}

// The prompts that a measurement is taken on; an empty block where it takes none.
const v1::PromptBlock& PromptsOf(const v1::Measurement& measurement) {
  switch (measurement.kind_case()) {
    case v1::Measurement::kQueryKeyProfile:
      return measurement.query_key_profile().prompts();
    case v1::Measurement::kFrequencyProfile:
      return measurement.frequency_profile().prompts();
    case v1::Measurement::kFrequencyFits:
      return measurement.frequency_fits().prompts();
    case v1::Measurement::kConditionOutcomes:
      return measurement.condition_outcomes().prompts();
    case v1::Measurement::kNeedleAttention:
      return measurement.needle_attention().prompts();
    case v1::Measurement::kTextLengths:
      return measurement.text_lengths().needles();
    default:
      return measurement.slash_profile().prompts();
  }
}

}  // namespace

Needs NeedsOf(const v1::Measurement& measurement) {
  Needs needs;
  for (const Kind& kind : kKinds) needs.model |= kind.kind == measurement.kind_case() && kind.needs_model;
  const v1::PromptBlock& prompts = PromptsOf(measurement);
  needs.texts = prompts.has_corpus() || !prompts.needle().corpus().empty() ||
                (measurement.has_text_lengths() && !measurement.text_lengths().has_needles());
  needs.tokenizer =
      measurement.has_text_lengths() || needs.texts || prompts.has_generated() || prompts.has_needle();
  return needs;
}

absl::StatusOr<Outcome> Measure(const v1::Measurement& measurement, const model::LoadedModel* model,
                                const Limits& limits, Recorder& recorder) {
  return Measure(measurement, Resources{.model = model}, limits, recorder);
}

absl::StatusOr<Outcome> Measure(const v1::Measurement& measurement, const Resources& resources,
                                const Limits& limits, Recorder& recorder) {
  ROPELAB_ASSIGN_OR_RETURN(const Kind* const kind, FindKind(measurement));
  ROPELAB_RETURN_IF_ERROR(CheckResources(*kind, NeedsOf(measurement), resources));
  const model::LoadedModel* model = kind->needs_model ? resources.model : nullptr;
  ROPELAB_RETURN_IF_ERROR(Admit(*kind, measurement, model, limits));
  try {
    return kind->run(measurement, resources, recorder);
  } catch (const c10::Error& error) {
    return absl::InternalError(absl::StrCat(kind->name, ": libtorch says: ", error.what_without_backtrace()));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(kind->name, ": the memory ran out; expected were up to ",
                                                     kind->bytes(measurement, model) >> 20,
                                                     " MiB beside the weights"));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(kind->name, ": ", error.what()));
  }
}

absl::StatusOr<int64_t> ActivationBytes(const v1::Measurement& measurement, const model::LoadedModel& model) {
  ROPELAB_ASSIGN_OR_RETURN(const Kind* const kind, FindKind(measurement));
  return kind->bytes(measurement, &model);
}

}  // namespace ropelab::measure
