// Checkpoints with the tensors that another implementation computed on them. They lie outside the repository.
// All inline: the tests of the engine and those of the measurements share it.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/unit/absent.h"
#include "worker/formats/safetensors.h"
#include "worker/model/loaded_model.h"

namespace ropelab::engine {

// Directory of a fixture model; "" when it is not there, with a line that says so.
inline std::string FixtureModel(const std::string& name) {
  const char* root = std::getenv("ROPELAB_FIXTURES");
  const std::string directory =
      std::string(root != nullptr ? root : ROPELAB_FIXTURES_DEFAULT) + "/models/" + name;
  if (std::filesystem::exists(directory + "/expected.safetensors")) return directory;
  std::cout << "no fixture model at " << directory << std::endl;
  return "";
}

// Throws on an error, which fails the test.
inline std::shared_ptr<const model::LoadedModel> LoadFixture(const std::string& name,
                                                             at::ScalarType dtype = at::kFloat) {
  auto loaded = model::LoadModel(FixtureModel(name), dtype, at::kCPU, 0, [](int64_t, int64_t) {});
  if (!loaded.ok()) throw std::runtime_error(loaded.status().ToString());
  return *loaded;
}

// Every tensor of one of a fixture's files.
inline std::map<std::string, at::Tensor> ExpectedTensors(
    const std::string& name, const std::string& file_name = "expected.safetensors") {
  const std::string path = FixtureModel(name) + "/" + file_name;
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string file = text.str();
  const auto ranges = formats::ParseSafetensorsHeader(file, path);
  if (!ranges.ok()) throw std::runtime_error(ranges.status().ToString());
  std::map<std::string, at::Tensor> tensors;
  for (const formats::TensorRange& range : *ranges) {
    if (range.dtype != "I64" && range.dtype != "F32")
      throw std::runtime_error("unexpected dtype " + range.dtype);
    at::Tensor tensor = at::empty(range.shape, range.dtype == "I64" ? at::kLong : at::kFloat);
    file.copy(static_cast<char*>(tensor.data_ptr()), range.end - range.begin, range.begin);
    tensors[range.name] = tensor;
  }
  return tensors;
}

inline std::vector<int32_t> Ids(const at::Tensor& input_ids) {
  const at::Tensor flat = input_ids.flatten().to(at::kInt).contiguous();
  return {flat.data_ptr<int32_t>(), flat.data_ptr<int32_t>() + flat.numel()};
}

// Largest absolute difference; infinity for different shapes.
inline double Distance(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

}  // namespace ropelab::engine

#define ROPELAB_NEED_FIXTURE(name)                                             \
  if (::ropelab::engine::FixtureModel(name).empty()) {                         \
    ROPELAB_ABSENT(std::string("the fixture model ") + name + " is not here"); \
  }
