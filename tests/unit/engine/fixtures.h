// Checkpoints with the tensors that another implementation computed on them. They lie outside the repository.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "worker/model/loaded_model.h"

namespace ropelab::engine {

// Directory of a fixture model; "" when it is not there, with a line that says so.
std::string FixtureModel(const std::string& name);

// Aborts the test on an error.
std::shared_ptr<const model::LoadedModel> LoadFixture(const std::string& name,
                                                      at::ScalarType dtype = at::kFloat);

// Every tensor of expected.safetensors.
std::map<std::string, at::Tensor> ExpectedTensors(const std::string& name);

std::vector<int32_t> Ids(const at::Tensor& input_ids);

// Largest absolute difference; infinity for different shapes.
double Distance(const at::Tensor& a, const at::Tensor& b);

#define ROPELAB_NEED_FIXTURE(name)                                  \
  if (::ropelab::engine::FixtureModel(name).empty()) {              \
    GTEST_SKIP() << "the fixture model " << name << " is not here"; \
  }

}  // namespace ropelab::engine
