// Control heads beside a named set: what a spec may say of them and which they are. Of low_rank and of the
// kinds that outcome_fields.h names. EXPERIMENTS.md section 7.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/repeated_field.h"
#include "server/experiments/head_draws.h"

namespace ropelab::experiments {

inline constexpr int64_t kLeastDraws = 10;  // of random heads; EXPERIMENTS.md section 7
inline constexpr int64_t kMostDraws = 1000;

// How a control is called in specs and tables: "random" or "layer_matched".
std::string ControlName(const v1::ControlHeads& control);
int64_t DrawsOf(const v1::ControlHeads& control);  // of a resolved one

struct ControlRules {
  bool each_alone = false;    // the heads are compared one at a time, so one other a layer will do
  bool whole_random = false;  // a random draw of fewer heads than are compared is refused, not shortened
};
using Controls = google::protobuf::RepeatedPtrField<v1::ControlHeads>;
// Writes the default draws and shortfall and adds what is wrong: no set, one named twice, draws out of range
// and, where `heads` lists them, too few others.
void ResolveControls(Controls& controls, const std::string& path, const v1::HeadSet& heads,
                     const ControlRules& rules, const Facts& facts, Problems& problems);

struct ControlDraw {
  int64_t draw = 0;
  std::vector<NamedHead> heads;  // ascending, never empty
};
// Every draw of a control for `named` out of `candidates` (head_draws.h); a draw without any head, since none
// is left, is none. FAILED_PRECONDITION, starting with `where`: a layer has too few heads for a matched
// control that must be whole; with `whole_random` also the model too few for a random one.
absl::StatusOr<std::vector<ControlDraw>> ControlDraws(const v1::ControlHeads& control,
                                                      const std::vector<NamedHead>& named,
                                                      const std::vector<NamedHead>& candidates,
                                                      const ControlRules& rules, const std::string& label,
                                                      uint64_t seed, const std::string& where);

}  // namespace ropelab::experiments
