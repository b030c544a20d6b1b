// Whether this server can do its work, for /healthz and the gRPC health service.
#pragma once

#include <memory>
#include <string>

#include "grpcpp/health_check_service_interface.h"
#include "server/api/coordinator.h"
#include "server/store/store.h"

namespace ropelab::api {

class Health {
 public:
  // Asks the coordinator once a second, on a thread of its own, so that a coordinator that hangs hangs
  // nothing else.
  static std::unique_ptr<Health> Watch(store::Store* store, Coordinator* coordinator);
  // Waits for an answer that is under way.
  virtual ~Health() = default;
  // "" or a sentence: the disk is full, the coordinator does not answer. Any thread, never blocks.
  virtual std::string Problem() const = 0;
  // From now on `service` says SERVING exactly while there is no problem. nullptr ends that.
  virtual void Tell(grpc::HealthCheckServiceInterface* service) = 0;
};

}  // namespace ropelab::api
