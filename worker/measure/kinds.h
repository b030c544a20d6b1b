// One function per kind of measurement, and what it needs. The table that joins them is in measure.cc.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "ropelab/v1/measurement.pb.h"
#include "worker/formats/tokenizer/tokenizer.h"
#include "worker/measure/measurement.h"
#include "worker/measure/texts.h"
#include "worker/model/loaded_model.h"

namespace ropelab::measure {

// Per layer and range of heads (or, beyond 32768 offsets, of offsets) a SlashBlock. EXPERIMENTS.md 1.
// `resources` holds a model, and what the source of the prompts needs.
absl::StatusOr<Outcome> MeasureSlashProfile(const v1::SlashProfile& request, const Resources& resources,
                                            Recorder& recorder);
int64_t SlashProfileBytes(const v1::SlashProfile& request, const model::LoadedModel& model);

// A SampledTokens per sample.
absl::StatusOr<Outcome> MeasureSampling(const v1::Sampling& request, const model::LoadedModel& model,
                                        Recorder& recorder);
int64_t SamplingBytes(const v1::Sampling& request, const model::LoadedModel& model);

// One InspectedTensors with the artifact tensors.safetensors.
absl::StatusOr<Outcome> MeasureInspection(const v1::InspectionTensors& request,
                                          const model::LoadedModel& model, Recorder& recorder);
int64_t InspectionTensorsBytes(const v1::InspectionTensors& request, const model::LoadedModel& model);

// One DocumentLengths, or of needles a RealisedNeedle per sample; nothing is fed to a model.
absl::StatusOr<Outcome> MeasureTextLengths(const v1::TextLengths& request, const Resources& resources,
                                           Recorder& recorder);

// One GeometryFigures with the artifact scores.safetensors. EXPERIMENTS.md 13; needs no model.
absl::StatusOr<Outcome> MeasureRopeGeometry(const v1::RopeGeometryFigures& request, Recorder& recorder);
int64_t RopeGeometryBytes(const v1::RopeGeometryFigures& request);

// One ShallowTrajectory. EXPERIMENTS.md 12; needs no model. Stops between two steps when the recorder says
// so.
absl::StatusOr<Outcome> MeasureShallowTraining(const v1::ShallowTrainingRun& request, Recorder& recorder);
int64_t ShallowTrainingBytes(const v1::ShallowTrainingRun& request);

// A LayerSpectra per prompt and layer; with view rows, a ViewTensors. EXPERIMENTS.md 3.
absl::StatusOr<Outcome> MeasureQueryKeyProfile(const v1::QueryKeyProfile& request, const Resources& resources,
                                               Recorder& recorder);
int64_t QueryKeyProfileBytes(const v1::QueryKeyProfile& request, const model::LoadedModel& model);

// A WeightSpectra per layer; or with a vocabulary a VocabularySide for the query and one for the key; or with
// query_rows a QueryRowNorms per layer. EXPERIMENTS.md 3, 8; nothing is fed to the model.
absl::StatusOr<Outcome> MeasureWeightProfile(const v1::WeightProfile& request,
                                             const model::LoadedModel& model, Recorder& recorder);
int64_t WeightProfileBytes(const v1::WeightProfile& request, const model::LoadedModel& model);

// A HeadFrequencies per head and its HeatMapPieces. EXPERIMENTS.md 4.
absl::StatusOr<Outcome> MeasureFrequencyProfile(const v1::FrequencyProfile& request,
                                                const Resources& resources, Recorder& recorder);
int64_t FrequencyProfileBytes(const v1::FrequencyProfile& request, const model::LoadedModel& model);

// A HeadFit per prompt and head. EXPERIMENTS.md 4.
absl::StatusOr<Outcome> MeasureFrequencyFits(const v1::FrequencyFits& request, const Resources& resources,
                                             Recorder& recorder);
int64_t FrequencyFitsBytes(const v1::FrequencyFits& request, const model::LoadedModel& model);

// A NeedleHeads per sample. EXPERIMENTS.md 7.
absl::StatusOr<Outcome> MeasureNeedleAttention(const v1::NeedleAttention& request, const Resources& resources,
                                               Recorder& recorder);
int64_t NeedleAttentionBytes(const v1::NeedleAttention& request, const model::LoadedModel& model);

// A PromptLoss per prompt and condition, or of needles a NeedleAnswer. EXPERIMENTS.md 5, 9.
absl::StatusOr<Outcome> MeasureConditionOutcomes(const v1::ConditionOutcomes& request,
                                                 const Resources& resources, Recorder& recorder);
int64_t ConditionOutcomesBytes(const v1::ConditionOutcomes& request, const model::LoadedModel& model);

}  // namespace ropelab::measure
