// The views of a QueryKeyProfile: the first rows of named heads' queries and keys and of their layers' H, as
// one file. EXPERIMENTS.md section 3.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ropelab/v1/measurement.pb.h"
#include "worker/measure/measurement.h"
#include "worker/model/loaded_model.h"

namespace ropelab::measure {

// INVALID_ARGUMENT, naming field and value: view_rows outside 0..4096, heads without view_rows or the other
// way round, no hidden_view for them, a head outside the model or out of order.
absl::Status CheckViews(const v1::QueryKeyProfile& request, const formats::ModelConfig& config);

// One thread.
class QueryKeyViews {
 public:
  // `request`, as CheckViews lets it pass, and `config` outlive it.
  QueryKeyViews(const v1::QueryKeyProfile& request, const formats::ModelConfig& config)
      : request_(request), config_(config) {}

  // Whether the block holds sample 0 and heads are named.
  bool Wanted() const;
  // Of sample 0: query [N, H, D] and key [N, G, D] fp32 before RoPE, hidden [N, d], all on the CPU.
  void AddLayer(int64_t layer, const at::Tensor& query, const at::Tensor& key, const at::Tensor& hidden);
  // A ViewTensors with views.safetensors.
  absl::Status Emit(Recorder& recorder) const;

  // Bytes held at most beside the tensors that AddLayer is given.
  static int64_t Bytes(const v1::QueryKeyProfile& request, const formats::ModelConfig& config,
                       int64_t tokens);

 private:
  void Add(const std::string& name, const at::Tensor& tensor);

  const v1::QueryKeyProfile& request_;
  const formats::ModelConfig& config_;
  std::map<std::string, at::Tensor> tensors_;
  std::vector<std::string> order_;
};

}  // namespace ropelab::measure
