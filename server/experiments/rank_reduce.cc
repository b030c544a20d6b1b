#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/rank_analysis.h"
#include "server/experiments/rank_readings.h"
#include "server/experiments/rank_tables.h"

namespace ropelab::experiments {

absl::StatusOr<Results> RankAnalysisExperiment::Reduce(const v1::ExperimentSpec& spec, const Context& context,
                                                       StageReadings& readings) const {
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<RankGroup> groups, ReadRanks(spec, context, readings));
  Results results;
  results.tables = RankTables(groups, context.numerics_class);
  for (const RankGroup& group : groups) {
    if (!group.views.has_value()) {
      continue;
    }
    v1::ArtifactInfo& info = results.artifacts.emplace_back();
    // Every task calls its file the same; beside each other they need names of their own.
    info.set_name(groups.size() == 1 ? group.views->name()
                                     : absl::StrCat("views.", group.label, ".", group.seed, ".safetensors"));
    info.set_sha256(group.views->sha256());
    info.set_bytes(group.views->bytes());
  }
  return results;
}

}  // namespace ropelab::experiments
