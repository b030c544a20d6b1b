// The interventions of an inspection: defaults, what is refused, and the form in which its task takes them.
// EXPERIMENTS.md section 9; docs/experiments/inspection.md.
#pragma once

#include "absl/status/statusor.h"
#include "ropelab/v1/measurement.pb.h"
#include "server/experiments/experiment.h"

namespace ropelab::experiments {

// Writes what an edit leaves out: target QUERY, stage PRE_ROPE, positions ALL unless it has a range, both
// matrices; sorts dims and pairs, whose order moves nothing. Adds what is wrong, each with its field's path:
// no kind, heads that are not listed or not in every model, dims and pairs that are none, outside a head or
// named twice, no factor or rank, positions QUESTION (token ids have none), a range outside the prompt, a
// projection that two edits replace.
void ResolveInterventions(v1::Inspection& inspection, const Facts& facts, Problems& problems);

// Of a resolved spec, into its task: the heads ascending and without offsets.
absl::Status PlanInterventions(const v1::ExperimentSpec& spec, const Context& context,
                               v1::InspectionTensors& tensors);

}  // namespace ropelab::experiments
