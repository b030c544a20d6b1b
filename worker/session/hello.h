// What a worker says of itself when a session begins.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ropelab/v1/worker_service.pb.h"
#include "worker/engine/numerics.h"

namespace ropelab::session {

struct HelloFacts {
  std::string worker_id;
  engine::NumericsClass numerics;
  std::string device;        // as --device says it
  int64_t memory_bytes = 0;  // for models and activations
  std::vector<std::string> labels;
  std::vector<std::string> roots;
  std::string cache_dir;
};

// Looks at the models roots anew each time, so that a model put there later is known after the next
// connection. Without the held leases, which the session adds. The incarnation is drawn once per process.
v1::Hello MakeHello(const HelloFacts& facts, const std::string& loaded_model);

}  // namespace ropelab::session
