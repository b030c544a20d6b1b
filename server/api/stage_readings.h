// The readings of an experiment's finished stages, straight from the store.
#pragma once

#include <cstdint>

#include "server/experiments/experiment.h"
#include "server/store/store.h"

namespace ropelab::api {

class StoredStageReadings : public experiments::StageReadings {
 public:
  StoredStageReadings(store::Store* store, int64_t experiment) : store_(store), experiment_(experiment) {}
  // INTERNAL if a task of the stage is not finished, or a stored message does not parse.
  absl::Status ForEach(int64_t stage,
                       absl::FunctionRef<absl::Status(int64_t task_index, const v1::Measurement& measurement,
                                                      const v1::Reading& reading)>
                           visit) override;

 private:
  store::Store* store_;
  int64_t experiment_;
};

}  // namespace ropelab::api
