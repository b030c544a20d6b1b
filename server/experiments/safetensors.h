// A safetensors file of float64 tensors, as bytes. The same tensors in the same order give the same bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace ropelab::experiments {

class SafetensorsFile {
 public:
  // The values are as many as the shape says, in row-major order; a NaN keeps its bits.
  void Add(const std::string& name, std::vector<int64_t> shape, std::span<const double> values);
  std::string Bytes() const;

 private:
  nlohmann::ordered_json header_;
  std::string data_;
};

}  // namespace ropelab::experiments
