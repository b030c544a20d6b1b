#include "server/api/experiment_service_describe.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"
#include "server/api/catalogue.h"

namespace ropelab::api {
namespace {

double Progress(const v1::Experiment& shown, double running) {
  if (shown.state() == "done") {
    return 1;
  }
  if (shown.tasks_total() == 0) {
    return 0;
  }
  return std::clamp((shown.tasks_done() + running) / shown.tasks_total(), 0.0, 1.0);
}

double SecondsLeft(const v1::Experiment& shown, const LiveExperiment& live, int64_t now_us) {
  if (IsFinalState(shown.state())) {
    return 0;
  }
  if (live.seconds_left >= 0) {
    return live.seconds_left;
  }
  const double measured = shown.tasks_done() - shown.tasks_reused() + live.running_progress;
  const double left = shown.tasks_total() - shown.tasks_done() - live.running_progress;
  if (live.tasks_running == 0 || shown.started_microseconds() == 0 || measured <= 0 || now_us <= shown.started_microseconds()) {
    return -1;
  }
  return std::max(0.0, left) * (now_us - shown.started_microseconds()) / 1e6 / measured;
}

}  // namespace

bool IsFinalState(const std::string& state) {
  return state == "done" || state == "failed" || state == "cancelled";
}

std::vector<std::string> Lines(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

v1::Experiment DescribeExperiment(const store::ExperimentRow& row, const store::TaskCounts& counts,
                                  const LiveExperiment& live, int64_t now_us) {
  v1::Experiment shown;
  shown.set_id(ExperimentId(row.id));
  shown.set_name(row.name);
  shown.set_study_id(row.study_id == 0 ? "" : StudyId(row.study_id));
  shown.set_kind(row.kind);
  shown.set_owner(row.owner);
  shown.set_owner_verified(row.owner_verified);
  shown.set_state(row.state);
  const bool ended = IsFinalState(row.state);
  shown.set_reason(ended || live.reason.empty() ? row.reason : live.reason);
  shown.set_priority(row.priority);
  for (const std::string& model : Lines(row.models)) {
    shown.add_models(ShownModelLine(model));
  }
  shown.set_numerics_class(row.numerics_class);
  shown.set_spec_hash(row.spec_hash);
  shown.set_tasks_total(counts.total);
  shown.set_tasks_done(counts.finished);
  shown.set_tasks_running(ended ? 0 : live.tasks_running);
  shown.set_tasks_reused(counts.reused);
  shown.set_stage(counts.stage);
  shown.set_readings(counts.readings);
  shown.set_submitted_microseconds(row.submitted_us);
  shown.set_started_microseconds(row.started_us);
  shown.set_finished_microseconds(row.finished_us);
  shown.set_progress(Progress(shown, ended ? 0 : live.running_progress));
  shown.set_seconds_left(SecondsLeft(shown, live, now_us));
  for (const std::string& warning : Lines(row.warnings)) {
    shown.add_warnings(warning);
  }
  for (const std::string& tag : Lines(row.tags)) {
    shown.add_tags(tag);
  }
  return shown;
}

absl::StatusOr<std::vector<v1::Experiment>> DescribeExperiments(const ServiceContext& context,
                                                                const std::vector<int64_t>& ids) {
  std::vector<store::ExperimentRow> rows;
  std::vector<store::TaskCounts> counts;
  ROPELAB_RETURN_IF_ERROR(context.store->Read([&](store::Connection& db) -> absl::Status {
    for (int64_t id : ids) {
      ROPELAB_ASSIGN_OR_RETURN(rows.emplace_back(), store::GetExperiment(db, id));
      ROPELAB_ASSIGN_OR_RETURN(counts.emplace_back(), store::CountTasks(db, id));
    }
    return absl::OkStatus();
  }));
  std::vector<v1::Experiment> shown;
  shown.reserve(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const LiveExperiment live =
        IsFinalState(rows[i].state) ? LiveExperiment{} : context.coordinator->Live(rows[i].id);
    shown.push_back(DescribeExperiment(rows[i], counts[i], live, context.clock->WallMicroseconds()));
  }
  return shown;
}

absl::StatusOr<std::vector<int64_t>> ExperimentsOfId(store::Connection& db, const std::string& id) {
  ROPELAB_ASSIGN_OR_RETURN(const PublicId parsed, ParseId(id));
  if (parsed.is_study) {
    absl::StatusOr<std::vector<int64_t>> members = store::ExperimentsOfStudy(db, parsed.number);
    if (absl::IsNotFound(members.status()) || (members.ok() && members->empty())) {
      return UnknownId(id);
    }
    return members;
  }
  const absl::StatusOr<store::ExperimentRow> row = store::GetExperiment(db, parsed.number);
  if (!row.ok()) {
    return absl::IsNotFound(row.status()) ? UnknownId(id) : row.status();
  }
  return std::vector<int64_t>{parsed.number};
}

absl::StatusOr<int64_t> ExperimentNumber(store::Connection& db, const std::string& id) {
  ROPELAB_ASSIGN_OR_RETURN(const PublicId parsed, ParseId(id));
  ROPELAB_ASSIGN_OR_RETURN(const std::vector<int64_t> members, ExperimentsOfId(db, id));
  if (parsed.is_study) {
    const std::string list = absl::StrJoin(
        members, ", ", [](std::string* out, int64_t member) { absl::StrAppend(out, ExperimentId(member)); });
    return absl::InvalidArgumentError(
        absl::StrCat("id: ", id, " is a study; name one of its experiments: ", list));
  }
  return parsed.number;
}

absl::StatusOr<store::ExperimentRow> FindExperiment(store::Connection& db, const std::string& id) {
  ROPELAB_ASSIGN_OR_RETURN(const int64_t number, ExperimentNumber(db, id));
  return store::GetExperiment(db, number);
}

}  // namespace ropelab::api
