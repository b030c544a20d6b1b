#include <exception>

#include "absl/strings/str_cat.h"
#include "worker/model/loaded_model.h"

namespace ropelab::model {

absl::StatusOr<at::Device> ParseDevice(const std::string& name) {
  constexpr char kRight[] = "; use cpu, cuda or cuda:N";
  at::Device device = at::kCPU;
  try {
    device = at::Device(name);
  } catch (const std::exception&) {
    return absl::InvalidArgumentError(absl::StrCat("device \"", name, "\" is not known", kRight));
  }
  if (device.is_cpu() && name == "cpu") return device;
  if (!device.is_cuda())
    return absl::InvalidArgumentError(absl::StrCat("device \"", name, "\" is not supported", kRight));
  if (!at::hasCUDA()) {
    return absl::FailedPreconditionError(
        absl::StrCat("device \"", name, "\": this libtorch or this machine has no CUDA device; use cpu"));
  }
  const int64_t count = static_cast<int64_t>(at::getNumGPUs());
  const int64_t index = device.has_index() ? device.index() : 0;
  if (index >= count) {
    return absl::FailedPreconditionError(
        absl::StrCat("device \"", name, "\": this machine has ", count, " CUDA devices, from cuda:0"));
  }
  return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(index));
}

}  // namespace ropelab::model
