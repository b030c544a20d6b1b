#include "server/experiments/inspection_edits.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/experiments/head_set.h"
#include "server/experiments/low_rank_edit.h"

namespace ropelab::experiments {
namespace {

using Numbers = google::protobuf::RepeatedField<int32_t>;

// Resolves the edits of one inspection.
class Resolver {
 public:
  Resolver(int64_t tokens, const Facts& facts, Problems& problems)
      : tokens_(tokens), facts_(facts), problems_(problems) {}

  void Resolve(v1::Intervention& intervention, const std::string& at) {
    switch (intervention.edit_case()) {
      case v1::Intervention::kZeroHead:
        ResolveHeads(intervention.zero_head().heads(), at + ".zero_head");
        ResolvePositions(*intervention.mutable_zero_head(), at + ".zero_head");
        return;
      case v1::Intervention::kZeroDims:
        ResolveDims(*intervention.mutable_zero_dims(), at + ".zero_dims");
        return;
      case v1::Intervention::kUnrotate:
        ResolveUnrotate(*intervention.mutable_unrotate(), at + ".unrotate");
        return;
      case v1::Intervention::kScaleDims:
        ResolveDims(*intervention.mutable_scale_dims(), at + ".scale_dims");
        CheckFactor(intervention.scale_dims(), at + ".scale_dims.factor");
        return;
      case v1::Intervention::kLowRank:
        ResolveLowRank(*intervention.mutable_low_rank(), at + ".low_rank");
        return;
      case v1::Intervention::EDIT_NOT_SET:
        problems_.Add(at, "", "say the edit: zero_head, zero_dims, unrotate, scale_dims or low_rank");
    }
  }

 private:
  void ResolveHeads(const v1::HeadSet& set, const std::string& path) {
    if (set.set_case() == v1::HeadSet::kList) {
      ResolveHeadSet(set, path + ".heads", facts_, problems_);
    } else {
      problems_.Add(path + ".heads", "", "an inspection names its heads: list { head { layer head } }");
    }
  }

  // Checks and sorts numbers of [first, first + count of the model).
  template <typename Count>
  void ResolveNumbers(Numbers& numbers, int32_t first, const char* what, const Count& count,
                      const std::string& path) {
    if (numbers.empty()) {
      problems_.Add(path, "", absl::StrCat("name at least one ", what));
    }
    for (int i = 0; i < numbers.size(); ++i) {
      const std::string at = absl::StrCat(path, "[", i, "]");
      for (const ModelFacts& model : facts_.models) {
        const int64_t last = first + count(model.config) - 1;
        if (numbers[i] < first || numbers[i] > last) {
          problems_.Add(
              at, absl::StrCat(numbers[i]),
              absl::StrCat("heads of model ", model.name, " have ", what, "s ", first, " to ", last));
        }
      }
      if (std::find(numbers.begin(), numbers.begin() + i, numbers[i]) != numbers.begin() + i) {
        problems_.Add(at, absl::StrCat(numbers[i]),
                      absl::StrCat("is named twice; name each ", what, " once"));
      }
    }
    std::sort(numbers.begin(), numbers.end());
  }

  template <typename Edit>
  void ResolvePositions(Edit& edit, const std::string& path) {
    if (!edit.has_position_range()) {
      if (!edit.has_positions()) {
        edit.set_positions(v1::EditPositions::ALL);
      } else if (edit.positions() == v1::EditPositions::QUESTION) {
        problems_.Add(path + ".positions", "QUESTION",
                      "token ids have no question; say ALL or give a position_range");
      }
      return;
    }
    const v1::PositionRange& range = edit.position_range();
    if (edit.has_positions()) {
      problems_.Add(path + ".position_range", "", "excludes positions; say one of them");
    }
    if (!range.has_first() || !range.has_last()) {
      problems_.Add(path + ".position_range", "", "a range has a first and a last position");
    } else if (range.first() < 0 || range.last() < range.first() || range.last() >= tokens_) {
      problems_.Add(path + ".position_range", absl::StrCat(range.first(), " to ", range.last()),
                    absl::StrCat("a range ascends within the prompt's positions, 0 to ", tokens_ - 1));
    }
  }

  template <typename Edit>
  void ResolveDims(Edit& edit, const std::string& path) {
    ResolveHeads(edit.heads(), path);
    ResolveNumbers(
        *edit.mutable_dims(), 0, "dimension", [](const v1::ModelConfig& config) { return config.head_dim(); },
        path + ".dims");
    if (!edit.has_target()) {
      edit.set_target(v1::Target::QUERY);
    }
    if (!edit.has_stage()) {
      edit.set_stage(v1::EditStage::PRE_ROPE);
    }
    ResolvePositions(edit, path);
  }

  void ResolveUnrotate(v1::Unrotate& edit, const std::string& path) {
    ResolveHeads(edit.heads(), path);
    ResolveNumbers(
        *edit.mutable_pairs(), 1, "pair", [](const v1::ModelConfig& config) { return config.head_dim() / 2; },
        path + ".pairs");
    ResolvePositions(edit, path);
  }

  void CheckFactor(const v1::ScaleDims& edit, const std::string& path) {
    if (!edit.has_factor()) {
      problems_.Add(path, "", "say what the dimensions are multiplied by");
    } else if (!std::isfinite(static_cast<float>(edit.factor()))) {
      problems_.Add(path, absl::StrCat(edit.factor()), "is beyond fp32, in which the product is taken");
    }
  }

  void ResolveLowRank(v1::LowRankEdit& edit, const std::string& path) {
    ResolveHeads(edit.heads(), path);
    if (edit.has_rank()) {
      CheckRank(edit.rank(), path + ".rank", facts_, problems_);
    } else {
      problems_.Add(path + ".rank", "", "say the rank of the projections that take the heads' place");
    }
    ResolveMatrices(*edit.mutable_matrices(), path + ".matrices", problems_);
  }

  const int64_t tokens_;
  const Facts& facts_;
  Problems& problems_;
};

// A projection that two edits replace would depend on their order.
void CheckReplacedOnce(const v1::Inspection& inspection, const v1::ModelConfig& config, Problems& problems) {
  std::map<std::tuple<int, int64_t, int64_t>, int> replaced;  // matrix, layer, head; by which edit
  for (int i = 0; i < inspection.interventions_size(); ++i) {
    const v1::LowRankEdit& edit = inspection.interventions(i).low_rank();
    for (const v1::Head& head : edit.heads().list().head()) {
      for (const int matrix : edit.matrices()) {
        const int64_t own = matrix == v1::Matrix::KEY ? KvHeadOf(config, head.head()) : head.head();
        const auto [at, is_new] = replaced.emplace(std::make_tuple(matrix, head.layer(), own), i);
        if (!is_new && at->second != i) {
          problems.Add(absl::StrCat("inspection.interventions[", i, "].low_rank"),
                       absl::StrCat("L", head.layer(), "H", head.head()),
                       absl::StrCat("its ", matrix == v1::Matrix::KEY ? "key" : "query",
                                    " projection is replaced by interventions[", at->second,
                                    "] already; name it in one of them"));
        }
      }
    }
  }
}

v1::HeadSet* HeadsOfEdit(v1::Intervention& intervention) {
  switch (intervention.edit_case()) {
    case v1::Intervention::kZeroHead:
      return intervention.mutable_zero_head()->mutable_heads();
    case v1::Intervention::kZeroDims:
      return intervention.mutable_zero_dims()->mutable_heads();
    case v1::Intervention::kUnrotate:
      return intervention.mutable_unrotate()->mutable_heads();
    case v1::Intervention::kScaleDims:
      return intervention.mutable_scale_dims()->mutable_heads();
    case v1::Intervention::kLowRank:
      return intervention.mutable_low_rank()->mutable_heads();
    case v1::Intervention::EDIT_NOT_SET:
      break;
  }
  return nullptr;
}

}  // namespace

void ResolveInterventions(v1::Inspection& inspection, const Facts& facts, Problems& problems) {
  Resolver resolver(inspection.token_ids().ids_size(), facts, problems);
  for (int i = 0; i < inspection.interventions_size(); ++i) {
    resolver.Resolve(*inspection.mutable_interventions(i), absl::StrCat("inspection.interventions[", i, "]"));
  }
  if (problems.empty() && !facts.models.empty()) {
    CheckReplacedOnce(inspection, facts.models.front().config, problems);
  }
}

absl::Status PlanInterventions(const v1::ExperimentSpec& spec, const Context& context,
                               v1::InspectionTensors& tensors) {
  for (const v1::Intervention& intervention : spec.inspection().interventions()) {
    v1::Intervention& planned = *tensors.add_interventions();
    planned = intervention;
    v1::HeadSet* set = HeadsOfEdit(planned);
    if (set == nullptr) {
      return absl::InternalError("a resolved inspection holds an intervention without its edit");
    }
    ROPELAB_ASSIGN_OR_RETURN(const std::vector<NamedHead> heads,
                             HeadsOf(*set, context, spec.models(0), static_cast<int64_t>(spec.seeds(0))));
    ListHeads(heads, *set);
  }
  return absl::OkStatus();
}

}  // namespace ropelab::experiments
