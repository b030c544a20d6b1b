// Models, workers and provenance as text. Pure functions; `now` is UTC microseconds.
#pragma once

#include <cstdint>
#include <string>

#include "ropelab/v1/experiment_service.pb.h"

namespace ropelab::client {

std::string RenderModels(const v1::ListModelsResponse& response, int64_t now);
std::string RenderWorkers(const v1::ListWorkersResponse& response, int64_t now);
std::string RenderProvenance(const v1::Provenance& provenance);

}  // namespace ropelab::client
