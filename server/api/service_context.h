// What every request handler of the services may use. Owned by main(), which outlives the
// service.
#pragma once

#include "common/clock.h"
#include "server/api/coordinator.h"
#include "server/api/service_metrics.h"
#include "server/api/work_pool.h"
#include "server/store/store.h"

namespace ropelab::api {

struct ServiceContext {
  store::Store* store = nullptr;
  Coordinator* coordinator = nullptr;
  WorkPool* requests = nullptr;  // short work
  WorkPool* streams = nullptr;   // work that waits for a reader
  WorkPool* corpora = nullptr;   // reading and writing corpora, for clients and workers
  ServiceMetrics* metrics = nullptr;
  const Clock* clock = nullptr;
};

}  // namespace ropelab::api
