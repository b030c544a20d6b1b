// A resolved config as the server learns it.
#pragma once

#include <cstdint>

#include "ropelab/v1/model.pb.h"
#include "worker/formats/model_config.h"

namespace ropelab::session {

// `parameters` from the shapes that the family's layers have. Without a tokenizer every embedding row is a
// token.
v1::ModelConfig ToMessage(const formats::ModelConfig& config);

// Elements of all weights, an embedding that is tied counted once.
int64_t CountParameters(const formats::ModelConfig& config);

v1::Dtype::Value ToMessage(formats::Dtype dtype);

}  // namespace ropelab::session
