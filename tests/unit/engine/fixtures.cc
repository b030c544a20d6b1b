#include "tests/unit/engine/fixtures.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "worker/formats/safetensors.h"

namespace ropelab::engine {
namespace {

std::string Root() {
  const char* from_environment = std::getenv("ROPELAB_FIXTURES");
  return from_environment != nullptr ? from_environment : ROPELAB_FIXTURES_DEFAULT;
}

at::Tensor FromBytes(const std::string& file, const formats::TensorRange& range) {
  const at::ScalarType type = range.dtype == "I64" ? at::kLong : at::kFloat;
  if (range.dtype != "I64" && range.dtype != "F32")
    throw std::runtime_error("unexpected dtype " + range.dtype);
  at::Tensor tensor = at::empty(range.shape, type);
  file.copy(static_cast<char*>(tensor.data_ptr()), range.end - range.begin, range.begin);
  return tensor;
}

}  // namespace

std::string FixtureModel(const std::string& name) {
  const std::string directory = Root() + "/models/" + name;
  if (std::filesystem::exists(directory + "/expected.safetensors")) return directory;
  std::cout << "no fixture model at " << directory << std::endl;
  return "";
}

std::shared_ptr<const model::LoadedModel> LoadFixture(const std::string& name, at::ScalarType dtype) {
  auto loaded = model::LoadModel(FixtureModel(name), dtype, at::kCPU, 0, [](int64_t, int64_t) {});
  if (!loaded.ok()) throw std::runtime_error(loaded.status().ToString());
  return *loaded;
}

std::map<std::string, at::Tensor> ExpectedTensors(const std::string& name) {
  const std::string path = FixtureModel(name) + "/expected.safetensors";
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string file = text.str();
  const auto ranges = formats::ParseSafetensorsHeader(file, path);
  if (!ranges.ok()) throw std::runtime_error(ranges.status().ToString());
  std::map<std::string, at::Tensor> tensors;
  for (const formats::TensorRange& range : *ranges) tensors[range.name] = FromBytes(file, range);
  return tensors;
}

std::vector<int32_t> Ids(const at::Tensor& input_ids) {
  const at::Tensor flat = input_ids.flatten().to(at::kInt).contiguous();
  return {flat.data_ptr<int32_t>(), flat.data_ptr<int32_t>() + flat.numel()};
}

double Distance(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

}  // namespace ropelab::engine
