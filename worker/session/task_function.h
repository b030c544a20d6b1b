// One task from grant to readings on this device: the model it names, room for its activations, the
// measurement.
#pragma once

#include <cstdint>

#include "worker/session/model_cache.h"
#include "worker/session/session.h"

namespace ropelab::session {

// `cache` outlives the function.
TaskFunction MakeTaskFunction(ModelCache* cache);

}  // namespace ropelab::session
