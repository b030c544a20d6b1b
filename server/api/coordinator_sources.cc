// Experiments that take their heads from others of their study wait until those are done.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/api/coordinator_impl.h"
#include "server/experiments/head_set.h"

namespace ropelab::api {

// Before anything else of an experiment; goes on to its models once it waits for nobody.
void CoordinatorImpl::AwaitSources(LiveEntry& entry) {
  const std::vector<std::string> names = experiments::ReferredExperiments(*entry.spec);
  if (names.empty()) {
    SettleModelsOf(entry);
    return;
  }
  entry.phase = LiveEntry::Phase::kAwaiting;
  struct Found {
    std::string name, state, reason;
    int64_t id = 0;
  };
  auto found = std::make_shared<std::vector<Found>>();
  const int64_t id = entry.row.id, study = entry.row.study_id;
  // In the writer's order: an experiment that ends after this read asks again for all that wait
  // (SourceEnded).
  WriteDurably(
      [study, names, found](store::Connection& db) -> absl::Status {
        ROPELAB_ASSIGN_OR_RETURN(const auto ids, store::ExperimentsOfStudy(db, study));
        found->clear();
        for (const int64_t other : ids) {
          ROPELAB_ASSIGN_OR_RETURN(const auto row, store::GetExperiment(db, other));
          if (std::find(names.begin(), names.end(), row.name) != names.end()) {
            found->push_back({row.name, row.state, row.reason, row.id});
          }
        }
        return absl::OkStatus();
      },
      [this, id, names, found](absl::Status status) {
        LiveEntry* waiting = FindEntry(id);
        if (waiting == nullptr || waiting->ending || waiting->phase != LiveEntry::Phase::kAwaiting) {
          return;
        }
        if (!status.ok()) {
          FailExperiment(id, std::string(status.message()));
          return;
        }
        waiting->sources.clear();
        std::string reason;
        for (const std::string& name : names) {
          const auto source =
              std::find_if(found->begin(), found->end(), [&](const Found& one) { return one.name == name; });
          if (source == found->end()) {
            FailExperiment(id,
                           absl::StrCat("experiment ", name, ", from which its heads come, is not there"));
            return;
          }
          const std::string called = absl::StrCat("experiment ", name, " (e", source->id, ")");
          if (source->state == "failed" || source->state == "cancelled") {
            FailExperiment(id, absl::StrCat(called, ", from which its heads come, is ", source->state, ": ",
                                            source->reason));
            return;
          }
          if (source->state != "done" && reason.empty()) {
            reason = absl::StrCat("waiting for ", called);
          }
          waiting->sources.push_back({name, source->id});
        }
        SetReason(*waiting, reason);
        if (reason.empty()) {
          waiting->phase = LiveEntry::Phase::kHashing;
          SettleModelsOf(*waiting);
        }
      });
}

void CoordinatorImpl::SourceEnded() {
  std::vector<int64_t> waiting;
  for (const auto& [id, entry] : experiments_) {
    if (entry.phase == LiveEntry::Phase::kAwaiting && !entry.ending) {
      waiting.push_back(id);
    }
  }
  for (const int64_t id : waiting) {
    if (LiveEntry* entry = FindEntry(id); entry != nullptr) {
      AwaitSources(*entry);
    }
  }
}

}  // namespace ropelab::api
