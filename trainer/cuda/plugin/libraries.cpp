// SPDX-License-Identifier: Apache-2.0
#include "trainer/cuda/plugin/libraries.h"

#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>

namespace triplepoint::trainer::cuda {
namespace {

/// One of the names a library has, newest first. Never closed: drivers do not survive that.
void* open_one(const std::string& folder, const std::vector<std::string>& names,
               const char* remedy) {
  std::string why;
  for (const std::string& name : names) {
    const std::string path = folder.empty() ? name : fmt::format("{}/{}", folder, name);
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    if (why.empty()) why = dlerror();
  }
  throw CudaError(fmt::format("{} was not found ({}); {}", names.front(), why, remedy));
}

template <class Field>
void find(void* library, const char* name, Field& field) {
  field = reinterpret_cast<Field>(dlsym(library, name));
  if (field == nullptr)
    throw CudaError(
        fmt::format("{} is not in the library that was found (it is older than this program "
                    "expects); install a newer driver and CUDA 12 or 13",
                    name));
}

}  // namespace

#define TPT_FIND(field, name, ...) find(library, #name, table.field);

Libraries open_libraries(const std::string& folder, bool nccl) {
  Libraries libraries;
  {
    void* library = open_one(folder, {"libcuda.so.1"}, "install NVIDIA's driver");
    Driver& table = libraries.driver;
    TPT_DRIVER_CALLS(TPT_FIND)
  }
  {
    void* library =
        open_one(folder, {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"},
                 "install cuBLAS of CUDA 12 or 13, or add its folder to LD_LIBRARY_PATH");
    BlasLibrary& table = libraries.blas;
    TPT_BLAS_CALLS(TPT_FIND)
  }
  if (!nccl) return libraries;
  void* library =
      open_one(folder, {"libnccl.so.2", "libnccl.so"}, "install NCCL, or train with one rank");
  NcclLibrary& table = libraries.nccl;
  TPT_NCCL_CALLS(TPT_FIND)
  return libraries;
}

#undef TPT_FIND

void Libraries::check(int result, const char* what) const {
  if (result == 0) return;
  const char* text = nullptr;
  driver.error_text(result, &text);
  throw CudaError(fmt::format("CUDA could not {} ({}, error {})", what,
                              text != nullptr ? text : "unknown", result));
}

void Libraries::check_blas(int status, const char* what) const {
  if (status == 0) return;
  throw CudaError(fmt::format("cuBLASLt could not {} ({})", what, blas.status_text(status)));
}

void Libraries::check_nccl(int result, const char* what) const {
  if (result == 0 || result == nccl_in_progress) return;
  throw CudaError(fmt::format("NCCL could not {} ({}); NCCL_DEBUG=WARN makes it say more", what,
                              nccl.error_text(result)));
}

}  // namespace triplepoint::trainer::cuda
