// Which tensors a config calls for: name on disk, shape, and the place in Weights.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "worker/formats/families.h"
#include "worker/model/loaded_model.h"

namespace ropelab::model {

struct WeightSlot {
  std::string name;
  std::vector<int64_t> shape;
  at::Tensor* place;            // within `weights`
  at::Tensor* scale = nullptr;  // of a projection: where its scales go when it is loaded as INT8
};

// Sizes weights->layers and lists every slot in the order of computation. A tied lm_head has no slot. The
// pointers hold as long as `weights` stays where it is and its layers are not resized.
std::vector<WeightSlot> WeightSlots(const formats::ModelConfig& config, const formats::WeightNames& names,
                                    Weights* weights);

// Bytes of all slots in `dtype`; in kInt8Weights a projection takes a byte an element and 4 a row.
int64_t SlotBytes(const std::vector<WeightSlot>& slots, at::ScalarType dtype);

}  // namespace ropelab::model
