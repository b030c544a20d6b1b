#include "server/experiments/outcome_fields.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace ropelab::experiments {
namespace {

// What every kind has.
template <typename Kind>
void TakeCommon(const Kind& kind, OutcomeFields& fields) {
  fields.heads = &kind.heads();
  fields.needles = &kind.needles();
  fields.perplexity = kind.has_perplexity() ? &kind.perplexity().prompts() : nullptr;
  fields.controls.assign(kind.controls().begin(), kind.controls().end());
  if (kind.has_position_range()) {
    fields.range = kind.position_range();
  } else {
    fields.positions = kind.positions();
  }
}

template <typename Kind>
void TakePatch(const Kind& kind, OutcomeFields& fields) {
  TakeCommon(kind, fields);
  for (const int condition : kind.conditions()) {
    fields.conditions.push_back(static_cast<v1::PatchCondition::Value>(condition));
  }
  fields.random_dims = kind.random_dims();
  fields.target = kind.target();
  fields.stage = kind.stage();
}

}  // namespace

bool OutcomeFields::Has(v1::PatchCondition::Value condition) const {
  return std::find(conditions.begin(), conditions.end(), condition) != conditions.end();
}

bool OutcomeFields::NeedsUtilities() const {
  return Has(v1::PatchCondition::LOWEST_UTILITY) || Has(v1::PatchCondition::HIGHEST_UTILITY);
}

OutcomeFields FieldsOf(const v1::ExperimentSpec& spec) {
  OutcomeFields fields;
  switch (spec.kind_case()) {
    case v1::ExperimentSpec::kKnockout:
      fields.kind = "knockout";
      TakeCommon(spec.knockout(), fields);
      break;
    case v1::ExperimentSpec::kPatch:
      fields.kind = "patch";
      TakePatch(spec.patch(), fields);
      if (spec.patch().has_dims()) {
        fields.dims = spec.patch().dims();
      } else {
        fields.shares = {spec.patch().dims_share()};
      }
      break;
    case v1::ExperimentSpec::kPerHeadPatch:
      fields.kind = "per_head_patch";
      TakePatch(spec.per_head_patch(), fields);
      fields.shares = {spec.per_head_patch().dims_share()};
      break;
    case v1::ExperimentSpec::kDoseSweep:
      fields.kind = "dose_sweep";
      TakePatch(spec.dose_sweep(), fields);
      fields.shares.assign(spec.dose_sweep().dims_shares().begin(), spec.dose_sweep().dims_shares().end());
      break;
    case v1::ExperimentSpec::kCoverageSweep:
      fields.kind = "coverage_sweep";
      TakePatch(spec.coverage_sweep(), fields);
      fields.shares = {spec.coverage_sweep().dims_share()};
      fields.coverages.assign(spec.coverage_sweep().coverages().begin(),
                              spec.coverage_sweep().coverages().end());
      break;
    default:
      fields.kind = "context_sweep";
      TakePatch(spec.context_sweep(), fields);
      fields.shares = {spec.context_sweep().dims_share()};
      break;
  }
  return fields;
}

std::string LowerCase(const std::string& name) {
  return absl::AsciiStrToLower(name);
}

std::string ConditionName(v1::PatchCondition::Value condition) {
  return LowerCase(v1::PatchCondition::Value_Name(condition));
}

std::string PositionsName(const OutcomeFields& fields) {
  if (fields.range.has_value()) {
    return absl::StrCat(fields.range->first(), "-", fields.range->last());
  }
  return LowerCase(v1::EditPositions::Value_Name(*fields.positions));
}

}  // namespace ropelab::experiments
