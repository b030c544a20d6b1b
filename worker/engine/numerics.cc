#include "worker/engine/numerics.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <array>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "worker/engine/probe.h"
#include "worker/engine/shared_objects.h"
#include "worker/model/loaded_model.h"

namespace ropelab::engine {
namespace {

// Settings from outside by which the libraries choose their code.
constexpr std::array kVariables = {
    "ATEN_CPU_CAPABILITY",     "DNNL_DEFAULT_FPMATH_MODE", "DNNL_MAX_CPU_ISA",     "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA",       "NVIDIA_TF32_OVERRIDE", "OMP_DYNAMIC",
    "OPENBLAS_CORETYPE"};
constexpr std::array kLibraries = {"libtorch_cpu", "libtorch_cuda", "libblas", "libopenblas", "libdnnl",
                                   "libgomp",      "libcublas",     "libm.so", "libc.so"};

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// "AVX2", "AVX512": only show_config tells what ATen's own loops were dispatched to.
std::string AtenCapability() {
  const std::string config = at::show_config();
  constexpr char kLine[] = "CPU capability usage: ";
  const size_t at = config.find(kLine);
  if (at == std::string::npos) return "unknown";
  const size_t begin = at + sizeof(kLine) - 1;
  return config.substr(begin, config.find('\n', begin) - begin);
}

std::string OpenBlasText(const char* function) {
  const auto get = reinterpret_cast<const char* (*)()>(dlsym(RTLD_DEFAULT, function));
  return get != nullptr ? get() : "none";
}

int OpenBlasThreads() {
  const auto get = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_num_threads"));
  return get != nullptr ? get() : 0;
}

// oneDNN's own number for the instruction set that it may use; 0 where it does not tell.
int OneDnnInstructionSet() {
  const auto get = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "dnnl_get_effective_cpu_isa"));
  return get != nullptr ? get() : 0;
}

}  // namespace

absl::StatusOr<NumericsClass> ComputeNumericsClass(const std::string& device, int threads) {
  ROPELAB_ASSIGN_OR_RETURN(const at::Device parsed, model::ParseDevice(device));
  NumericsClass result;
  std::vector<std::string>& lines = result.ingredients;
  lines.push_back(absl::StrCat("engine=", kEngineVersion));
  lines.push_back(absl::StrCat("device=", parsed.is_cpu() ? "cpu" : "cuda"));
  lines.push_back(absl::StrCat("threads=", threads));
  lines.push_back(absl::StrCat("aten_threads=", at::get_num_threads()));
  lines.push_back(absl::StrCat("openblas_threads=", OpenBlasThreads()));
  lines.push_back(absl::StrCat("aten_capability=", AtenCapability()));
  lines.push_back(absl::StrCat("onednn_isa=", OneDnnInstructionSet()));
  lines.push_back(absl::StrCat("sgemm=", ObjectOfSymbol("sgemm_")));
  lines.push_back(absl::StrCat("openblas_core=", OpenBlasText("openblas_get_corename")));
  lines.push_back(absl::StrCat("openblas_config=", OpenBlasText("openblas_get_config")));
  for (const char* library : kLibraries) lines.push_back(absl::StrCat(library, "=", LoadedObject(library)));
  for (const char* name : kVariables) lines.push_back(absl::StrCat(name, "=", Variable(name)));
  try {
    ROPELAB_RETURN_IF_ERROR(CheckProducts(parsed));
    lines.push_back(absl::StrCat("probe=", ProbeDigest(parsed)));
  } catch (const std::exception& error) {
    return absl::FailedPreconditionError(
        absl::StrCat("the numerics probe failed on ", device, ": ", error.what()));
  }
  result.hash = Sha256Hex(absl::StrCat(absl::StrJoin(lines, "\n"), "\n")).substr(0, 16);
  return result;
}

}  // namespace ropelab::engine
