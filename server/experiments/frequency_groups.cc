#include "server/experiments/frequency_groups.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/frequency_analysis.h"
#include "server/experiments/model_names.h"
#include "server/experiments/slash_detection.h"

namespace ropelab::experiments {
namespace {

constexpr int64_t kNearRow = 100;  // the slash paper, Figure 15

v1::FieldProblem ProblemOf(const char* field, std::string value, std::string remedy) {
  v1::FieldProblem problem;
  problem.set_field(absl::StrCat("frequency_analysis.", field));
  problem.set_value(std::move(value));
  problem.set_remedy(std::move(remedy));
  return problem;
}

absl::Status AsStatus(const v1::FieldProblem& problem) {
  return absl::FailedPreconditionError(
      absl::StrCat(problem.field(), ": ", problem.value(), ": ", problem.remedy()));
}

}  // namespace

std::vector<int64_t> HeatRowsOf(const v1::FrequencyAnalysis& analysis, const PromptShape& shape,
                                const std::vector<NamedHead>& heads) {
  if (!analysis.rows().empty()) {
    return {analysis.rows().begin(), analysis.rows().end()};
  }
  const bool far = std::any_of(heads.begin(), heads.end(), [](const NamedHead& head) {
    return head.offset.has_value() && *head.offset >= kSmallOffsets;
  });
  const int64_t row = far ? std::max<int64_t>(1, 5 * shape.shortest / 6) : std::min(kNearRow, shape.shortest);
  return {std::min(row, kLongestHeatRow)};
}

int64_t HeatBytes(int64_t pairs, const std::vector<int64_t>& rows, int64_t heads) {
  int64_t numbers = 0;
  for (const int64_t row : rows) {
    numbers += pairs * row;
  }
  return heads * numbers * static_cast<int64_t>(sizeof(double));
}

std::optional<v1::FieldProblem> HeadsProblem(const v1::FrequencyAnalysis& analysis, const PromptShape& shape,
                                             const ModelFacts& model, const std::vector<NamedHead>& heads,
                                             const std::vector<int64_t>& rows) {
  const int64_t count = static_cast<int64_t>(heads.size());
  const std::string of_model = absl::StrCat(count, " heads of model ", model.name);
  const char* fewer = analysis.heads().has_slash_dominant() ? "say fewer with slash_dominant's top"
                                                            : "name fewer, or split the experiment";
  if (count > kMostFrequencyHeads) {
    return ProblemOf("heads", of_model,
                     absl::StrCat("at most ", kMostFrequencyHeads, " in one experiment; ", fewer));
  }
  const int64_t reach = shape.shortest - kFrequencySkipFirst - 1;
  for (const NamedHead& head : heads) {
    if (head.offset.has_value() && *head.offset > reach) {
      return ProblemOf(
          "heads", absl::StrCat("L", head.layer, "H", head.head, " at offset ", *head.offset),
          absl::StrCat("a prompt of ", shape.shortest, " tokens has no entry so far back once the first ",
                       kFrequencySkipFirst, " positions are left out: its offsets are 0 to ", reach,
                       "; give longer prompts, or other heads"));
    }
  }
  const int64_t bytes = HeatBytes(model.config.head_dim() / 2, rows, count);
  if (bytes > kMostHeatBytes) {
    return ProblemOf("rows", absl::StrCat(rows.size(), " rows up to ", rows.back()),
                     absl::StrCat("the heat maps of ", of_model, " take ", bytes >> 20, " MiB; at most ",
                                  kMostHeatBytes >> 20, " MiB: give fewer or nearer rows, or ", fewer));
  }
  return std::nullopt;
}

std::optional<v1::FieldProblem> CosineRowsProblem(const PromptShape& shape, int64_t heads) {
  if (heads <= kMostCosineRows / (shape.longest + 1)) {
    return std::nullopt;
  }
  return ProblemOf(
      "heads", absl::StrCat(heads, " cosine sums"),
      absl::StrCat("over the ", shape.longest, " lags of these prompts are more than ", kMostCosineRows,
                   " rows of results; give fewer heads, seeds or models, or shorter prompts"));
}

absl::StatusOr<std::vector<FrequencyGroup>> FrequencyGroupsOf(const v1::ExperimentSpec& spec,
                                                              const Context& context) {
  if (context.models.size() != static_cast<size_t>(spec.models_size())) {
    return absl::InternalError(absl::StrCat("the spec names ", spec.models_size(), " models, but ",
                                            context.models.size(), " were given to it"));
  }
  const v1::FrequencyAnalysis& analysis = spec.frequency_analysis();
  const std::optional<PromptShape> shape = ShapeOf(analysis.prompts());
  if (!shape.has_value()) {
    return absl::InternalError("frequency_analysis.prompts: the spec was not resolved before it was planned");
  }
  std::vector<FrequencyGroup> groups;
  int64_t sums = 0;
  for (size_t m = 0; m < context.models.size(); ++m) {
    for (int s = 0; s < spec.seeds_size(); ++s) {
      FrequencyGroup group;
      group.model = &context.models[m];
      group.model_index = m;
      group.seed_index = static_cast<size_t>(s);
      group.label = spec.models(static_cast<int>(m));
      group.dtype = v1::Dtype::Value_Name(DtypeOf(spec, context.models[m]));
      group.seed = static_cast<int64_t>(spec.seeds(s));
      ROPELAB_ASSIGN_OR_RETURN(group.heads, HeadsOf(analysis.heads(), context, group.label, group.seed));
      group.removals = RemovalsOf(analysis, group.pairs());
      sums += group.heads.empty() ? 0 : static_cast<int64_t>(group.heads.size()) + 1;
      groups.push_back(std::move(group));
    }
  }
  const std::vector<int64_t> rows = HeatRowsOf(analysis, *shape, AllHeadsOf(groups));
  for (const FrequencyGroup& group : groups) {
    const auto problem = HeadsProblem(analysis, *shape, *group.model, group.heads, rows);
    if (problem.has_value()) {
      return AsStatus(*problem);
    }
  }
  if (const auto problem = CosineRowsProblem(*shape, sums); problem.has_value()) {
    return AsStatus(*problem);
  }
  return groups;
}

std::vector<NamedHead> AllHeadsOf(const std::vector<FrequencyGroup>& groups) {
  std::vector<NamedHead> heads;
  for (const FrequencyGroup& group : groups) {
    heads.insert(heads.end(), group.heads.begin(), group.heads.end());
  }
  return heads;
}

std::vector<FrequencyTask> ProfileTasks(const std::vector<FrequencyGroup>& groups, int64_t blocks) {
  std::vector<FrequencyTask> tasks;
  for (size_t group = 0; group < groups.size(); ++group) {
    if (groups[group].heads.empty()) {
      continue;
    }
    for (const FrequencyPart part : {FrequencyPart::kProfile, FrequencyPart::kRemovals}) {
      const bool measured = part == FrequencyPart::kProfile || !groups[group].removals.lists.empty();
      for (int64_t block = 0; measured && block < blocks; ++block) {
        tasks.push_back({part, group, block});
      }
    }
  }
  return tasks;
}

std::vector<FrequencyTask> FitTasks(const std::vector<FrequencyGroup>& groups, int64_t blocks) {
  std::vector<FrequencyTask> tasks;
  for (size_t group = 0; group < groups.size(); ++group) {
    for (int64_t block = 0; !groups[group].heads.empty() && block < blocks; ++block) {
      tasks.push_back({FrequencyPart::kFits, group, block});
    }
  }
  return tasks;
}

}  // namespace ropelab::experiments
