// Tensors as the bytes of a safetensors file.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>
#include <vector>

namespace ropelab::measure {

// `order` names tensors of the map; those absent are left out. fp32, fp64, fp16, bf16 and int64 are written
// as they are.
std::string TensorFile(const std::map<std::string, at::Tensor>& tensors,
                       const std::vector<std::string>& order);

}  // namespace ropelab::measure
