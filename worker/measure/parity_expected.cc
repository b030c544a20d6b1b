#include <algorithm>
#include <filesystem>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/tensor_recorder.h"
#include "worker/formats/json_text.h"
#include "worker/formats/safetensors.h"
#include "worker/measure/parity_checks.h"

namespace ropelab::measure {
namespace {

using Tensors = std::map<std::string, at::Tensor>;

constexpr size_t kMaxExpectedBytes = size_t{1} << 32;

// Axes of each tensor that `inspect` knows, without a batch.
const std::map<std::string, std::vector<std::string>>& Axes() {
  static const auto& axes =
      *new std::map<std::string, std::vector<std::string>>{{"logits", {"row", "token"}},
                                                           {"attn_probs", {"layer", "head", "row", "key"}},
                                                           {"q_pre", {"layer", "head", "row", "dimension"}},
                                                           {"k_pre", {"layer", "head", "row", "dimension"}},
                                                           {"q_rot", {"layer", "head", "row", "dimension"}},
                                                           {"k_rot", {"layer", "head", "row", "dimension"}},
                                                           {"hidden", {"layer", "row", "dimension"}},
                                                           {"inv_freq", {"pair"}}};
  return axes;
}

absl::StatusOr<at::Tensor> ReadTensor(std::string_view file, const formats::TensorRange& range,
                                      const std::string& path) {
  static const std::map<std::string, at::ScalarType> types = {{"F32", at::kFloat},     {"F64", at::kDouble},
                                                              {"BF16", at::kBFloat16}, {"F16", at::kHalf},
                                                              {"I64", at::kLong},      {"I32", at::kInt}};
  const auto type = types.find(range.dtype);
  if (type == types.end()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": tensor ", range.name, " is of dtype ",
                                                   range.dtype,
                                                   "; compared are F32, F64, BF16, F16, I64 and I32"));
  }
  at::Tensor tensor = at::empty(range.shape, type->second);
  if (tensor.numel() > 0)
    file.copy(static_cast<char*>(tensor.data_ptr()), range.end - range.begin, range.begin);
  return tensor;
}

absl::StatusOr<Tensors> ReadTensors(const std::string& path) {
  ROPELAB_ASSIGN_OR_RETURN(const std::string file, formats::ReadWholeFile(path, kMaxExpectedBytes));
  ROPELAB_ASSIGN_OR_RETURN(const auto ranges, formats::ParseSafetensorsHeader(file, path));
  Tensors tensors;
  for (const formats::TensorRange& range : ranges) {
    ROPELAB_ASSIGN_OR_RETURN(tensors[range.name], ReadTensor(file, range, path));
    if (range.name != "input_ids" && !Axes().contains(range.name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": tensor ", range.name, " is none that inspect gives; take it out or rename the file"));
    }
  }
  const auto ids = tensors.find("input_ids");
  if (ids == tensors.end() || ids->second.dim() < 1 || ids->second.dim() > 2 || ids->second.numel() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": input_ids [T] or [B, T] is missing: nothing says what was computed"));
  }
  if (tensors.size() == 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": holds input_ids alone; add what was computed from them (logits, ...) or take it away"));
  }
  return tensors;
}

// Before they are narrowed: an id of 2^32 would pass for 0.
absl::Status CheckIds(const at::Tensor& ids, int64_t vocabulary, const std::string& path) {
  const at::Tensor flat = ids.to(at::kLong).reshape({-1}).contiguous();
  for (int64_t i = 0; i < flat.numel(); ++i) {
    const int64_t id = flat.data_ptr<int64_t>()[i];
    if (id < 0 || id >= vocabulary) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": entry ", i, " of input_ids is ", id,
                                                     "; this model's token ids are 0 to ", vocabulary - 1,
                                                     ": the file belongs to another model"));
    }
  }
  return absl::OkStatus();
}

// One prompt of the file, at every block size.
absl::Status ComparePrompt(const model::LoadedModel& model, const Tensors& expected, const std::string& file,
                           std::map<std::string, Worst>& worst) {
  const at::Tensor ids_tensor = expected.at("input_ids").to(at::kLong).to(at::kInt).contiguous();
  const std::vector<int32_t> ids(ids_tensor.data_ptr<int32_t>(),
                                 ids_tensor.data_ptr<int32_t>() + ids_tensor.numel());
  std::vector<std::string> names;
  for (const auto& [name, tensor] : expected) {
    if (name != "input_ids") names.push_back(name);
  }
  for (const BlockSize& size : kBlockSizes) {
    engine::ForwardOptions options;
    options.block_rows = size.rows > 0 ? size.rows : static_cast<int64_t>(ids.size());
    ROPELAB_ASSIGN_OR_RETURN(const Tensors got, engine::InspectPrompt(model, ids, names, options));
    for (const std::string& name : names) {
      const at::Tensor& wanted = expected.at(name);
      if (wanted.dim() != static_cast<int64_t>(Axes().at(name).size())) {
        return absl::InvalidArgumentError(absl::StrCat(file, ": tensor ", name, " has ", wanted.dim(),
                                                       " dimensions where ", Axes().at(name).size(),
                                                       " (and a batch's in front) are expected"));
      }
      worst[name].See(
          AbsoluteDistance(got.at(name), wanted, Axes().at(name), absl::StrCat(file, ", ", size.name)));
    }
  }
  return absl::OkStatus();
}

absl::Status CompareFile(const model::LoadedModel& model, const std::string& path,
                         std::map<std::string, Worst>& worst) {
  ROPELAB_ASSIGN_OR_RETURN(const Tensors tensors, ReadTensors(path));
  ROPELAB_RETURN_IF_ERROR(CheckIds(tensors.at("input_ids"), model.config.vocabulary, path));
  const std::string file = std::filesystem::path(path).filename().string();
  if (tensors.at("input_ids").dim() == 1) return ComparePrompt(model, tensors, file, worst);
  const int64_t batch = tensors.at("input_ids").size(0);
  for (int64_t sample = 0; sample < batch; ++sample) {
    Tensors one;
    for (const auto& [name, tensor] : tensors) {
      if (name == "inv_freq") {
        one[name] = tensor;
        continue;
      }
      if (tensor.dim() == 0 || tensor.size(0) != batch) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, ": tensor ", name, " lacks the batch of ", batch, " that input_ids has"));
      }
      one[name] = tensor[sample];
    }
    ROPELAB_RETURN_IF_ERROR(ComparePrompt(model, one, absl::StrCat(file, ", sample ", sample), worst));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckExpected(const model::LoadedModel& model, FactList& facts) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(model.directory, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("expected") && name.ends_with(".safetensors"))
      files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  std::map<std::string, Worst> worst;
  for (const std::string& file : files) ROPELAB_RETURN_IF_ERROR(CompareFile(model, file, worst));
  for (const auto& [name, found] : worst) {
    facts.Bounded(absl::StrCat("expected_", name), found, name == "attn_probs" ? 5e-5 : 2e-4, "absolute");
  }
  return absl::OkStatus();
}

}  // namespace ropelab::measure
