#include "server/api/stage_readings.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/store/tasks.h"

namespace ropelab::api {

absl::Status StoredStageReadings::ForEach(
    int64_t stage, absl::FunctionRef<absl::Status(int64_t task_index, const v1::Measurement& measurement,
                                                  const v1::Reading& reading)>
                       visit) {
  return store_->Read([&](store::Connection& db) -> absl::Status {
    ROPELAB_ASSIGN_OR_RETURN(const auto tasks, store::TasksOf(db, experiment_, stage));
    for (const store::TaskRow& task : tasks) {
      if (task.state != "finished") {
        return absl::InternalError(absl::StrCat("task ", task.id, " of stage ", stage, " of experiment e",
                                                experiment_, " is ", task.state, ", not finished"));
      }
      ROPELAB_ASSIGN_OR_RETURN(const std::string body,
                               store::MeasurementOf(db, store_->artifacts(), task.id));
      v1::Measurement measurement;
      if (!measurement.ParseFromString(body)) {
        return absl::InternalError(
            absl::StrCat("the stored measurement of task ", task.id, " does not parse"));
      }
      ROPELAB_RETURN_IF_ERROR(store::ForEachReading(
          db, store_->artifacts(), task.id, [&](int64_t sequence, const std::string& bytes) -> absl::Status {
            v1::Reading reading;
            if (!reading.ParseFromString(bytes)) {
              return absl::InternalError(
                  absl::StrCat("stored reading ", sequence, " of task ", task.id, " does not parse"));
            }
            return visit(task.index, measurement, reading);
          }));
    }
    return absl::OkStatus();
  });
}

}  // namespace ropelab::api
