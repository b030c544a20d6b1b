// Corpora as text. Pure functions; `now` is UTC microseconds.
#pragma once

#include <cstdint>
#include <string>

#include "ropelab/v1/experiment_service.pb.h"

namespace ropelab::client {

std::string RenderCorpora(const v1::ListCorporaResponse& response, int64_t now);
// One corpus whole, its hash too.
std::string RenderCorpus(const v1::Corpus& corpus);
// "moby  1.5 MiB of 3.0 MiB  50%  12 MiB/s  0.1s left".
std::string RenderUpload(const std::string& name, int64_t sent, int64_t total, double seconds);

}  // namespace ropelab::client
