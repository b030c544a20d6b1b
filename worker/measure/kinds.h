// One function per kind of measurement, and what it needs. The table that joins them is in measure.cc.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "ropelab/v1/measurement.pb.h"
#include "worker/measure/measurement.h"
#include "worker/model/loaded_model.h"

namespace ropelab::measure {

// Per layer and range of heads (or, beyond 32768 offsets, of offsets) a SlashBlock. EXPERIMENTS.md 1.
absl::StatusOr<Outcome> MeasureSlashProfile(const v1::SlashProfile& request, const model::LoadedModel& model,
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

// One GeometryFigures with the artifact scores.safetensors. EXPERIMENTS.md 13; needs no model.
absl::StatusOr<Outcome> MeasureRopeGeometry(const v1::RopeGeometryFigures& request, Recorder& recorder);
int64_t RopeGeometryBytes(const v1::RopeGeometryFigures& request);

}  // namespace ropelab::measure
