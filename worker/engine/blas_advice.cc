#include "worker/engine/blas_advice.h"

#include <ATen/Context.h>
#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "worker/engine/shared_objects.h"

namespace ropelab::engine {
namespace {

constexpr int kOpenMp = 2;  // what openblas_get_parallel says of a build with OpenMP

}  // namespace

std::string BlasAdvice() {
  if (at::hasMKL()) return "";
  // LAPACK can load OpenBLAS while products go to the reference BLAS, so what counts is the file that sgemm_
  // itself lies in.
  const void* product = dlsym(RTLD_DEFAULT, "sgemm_");
  if (product == nullptr) return "";  // libtorch brought its own
  Dl_info found;
  const std::string file = dladdr(product, &found) != 0 && found.dli_fname != nullptr ? found.dli_fname : "";
  void* library = dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  const bool open_blas = library != nullptr && dlsym(library, "openblas_get_config") != nullptr;
  const auto parallel = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_parallel"));
  if (library != nullptr) dlclose(library);
  if (!open_blas) {
    return absl::StrCat(
        "products go to ", file, ", which is not OpenBLAS and some fifty times slower; install ",
        "libopenblas0-openmp and choose it with update-alternatives for libblas.so.3 and libopenblas.so.0");
  }
  if (parallel != nullptr && parallel() != kOpenMp) {
    return "OpenBLAS here is the build with threads of its own, which compete with the engine's; install "
           "libopenblas0-openmp "
           "and choose it with update-alternatives for libblas.so.3 and libopenblas.so.0";
  }
  return "";
}

}  // namespace ropelab::engine
