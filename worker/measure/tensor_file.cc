#include "worker/measure/tensor_file.h"

#include "worker/formats/safetensors_writer.h"

namespace ropelab::measure {
namespace {

const char* DtypeName(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return "F64";
    case at::kHalf:
      return "F16";
    case at::kBFloat16:
      return "BF16";
    case at::kLong:
      return "I64";
    default:
      TORCH_CHECK(type == at::kFloat, "no safetensors name for dtype ", type);
      return "F32";
  }
}

}  // namespace

std::string TensorFile(const std::map<std::string, at::Tensor>& tensors,
                       const std::vector<std::string>& order) {
  std::vector<formats::NamedTensor> named;
  for (const std::string& name : order) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) continue;
    const at::Tensor tensor = found->second.cpu().contiguous();
    named.push_back({name, DtypeName(tensor.scalar_type()), tensor.sizes().vec(),
                     std::string(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes())});
  }
  return formats::SerializeSafetensors(named);
}

}  // namespace ropelab::measure
