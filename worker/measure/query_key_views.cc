#include "worker/measure/query_key_views.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/measure/query_key_hidden.h"
#include "worker/measure/tensor_file.h"

namespace ropelab::measure {
namespace {

constexpr char kArtifact[] = "views.safetensors";
constexpr int64_t kMostRows = 4096;

absl::Status CheckHeads(const v1::QueryKeyProfile& request, const formats::ModelConfig& config) {
  std::pair<int32_t, int32_t> last{-1, -1};
  for (const v1::MeasuredHead& head : request.heads()) {
    const std::string name = absl::StrCat("query_key_profile.heads: L", head.layer(), "H", head.head());
    if (head.layer() < 0 || head.layer() >= config.layers || head.head() < 0 ||
        head.head() >= config.query_heads) {
      return absl::InvalidArgumentError(absl::StrCat(name, " is not in the model: it has ", config.layers,
                                                     " layers of ", config.query_heads,
                                                     " heads, both from 0"));
    }
    if (std::pair(head.layer(), head.head()) <= last) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " is out of order: heads ascend by layer and head, each once"));
    }
    last = {head.layer(), head.head()};
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckViews(const v1::QueryKeyProfile& request, const formats::ModelConfig& config) {
  if (request.view_rows() < 0 || request.view_rows() > kMostRows) {
    return absl::InvalidArgumentError(absl::StrCat("query_key_profile.view_rows is ", request.view_rows(),
                                                   "; a view has 1 to ", kMostRows,
                                                   " rows, 0 says no views"));
  }
  if ((request.heads_size() > 0) != (request.view_rows() > 0)) {
    return absl::InvalidArgumentError(absl::StrCat("query_key_profile names ", request.heads_size(),
                                                   " heads and view_rows ", request.view_rows(),
                                                   "; views need both, and without views both are left out"));
  }
  if (request.heads_size() > 0 && request.hidden_view() != v1::HiddenView::FIRST_COORDINATES &&
      request.hidden_view() != v1::HiddenView::PCA) {
    return absl::InvalidArgumentError(absl::StrCat("query_key_profile.hidden_view is ", request.hidden_view(),
                                                   "; views need FIRST_COORDINATES or PCA"));
  }
  return CheckHeads(request, config);
}

bool QueryKeyViews::Wanted() const {
  return request_.heads_size() > 0 && request_.prompts().samples().first_sample() == 0;
}

void QueryKeyViews::Add(const std::string& name, const at::Tensor& tensor) {
  tensors_[name] = tensor;
  order_.push_back(name);
}

void QueryKeyViews::AddLayer(int64_t layer, const at::Tensor& query, const at::Tensor& key,
                             const at::Tensor& hidden) {
  const int64_t rows = std::min(request_.view_rows(), query.size(0));
  bool named = false;
  for (const v1::MeasuredHead& head : request_.heads()) {
    if (head.layer() != layer) continue;
    named = true;
    const std::string name = absl::StrCat("L", layer, "H", head.head());
    const int64_t kv_head = head.head() * config_.kv_heads / config_.query_heads;
    // Copies: query and key are the next layer's soon.
    Add(name + ".q", query.narrow(0, 0, rows).select(1, head.head()).clone(at::MemoryFormat::Contiguous));
    Add(name + ".k", key.narrow(0, 0, rows).select(1, kv_head).clone(at::MemoryFormat::Contiguous));
  }
  if (!named) return;
  const at::Tensor shown = ViewOfHidden(hidden, rows, config_.head_dim, request_.hidden_view());
  Add(absl::StrCat("L", layer, ".h"), shown);
}

absl::Status QueryKeyViews::Emit(Recorder& recorder) const {
  v1::Reading reading;
  reading.mutable_views()->set_artifact(kArtifact);
  for (const std::string& name : order_) reading.mutable_views()->add_tensors(name);
  return recorder.Emit(std::move(reading), {{kArtifact, TensorFile(tensors_, order_)}});
}

int64_t QueryKeyViews::Bytes(const v1::QueryKeyProfile& request, const formats::ModelConfig& config,
                             int64_t tokens) {
  if (request.heads_size() == 0 || request.prompts().samples().first_sample() != 0) return 0;
  const int64_t rows = std::min(std::clamp<int64_t>(request.view_rows(), 0, kMostRows), tokens);
  std::set<int32_t> layers;
  for (const v1::MeasuredHead& head : request.heads()) layers.insert(head.layer());
  const int64_t matrices = 2 * int64_t{request.heads_size()} + static_cast<int64_t>(layers.size());
  const int64_t kept = matrices * rows * config.head_dim * static_cast<int64_t>(sizeof(float));
  // Tensors, their bytes, and the file.
  return 3 * kept + HiddenViewBytes(tokens, config.hidden_size, rows, config.head_dim, request.hidden_view());
}

}  // namespace ropelab::measure
