// SPDX-License-Identifier: Apache-2.0
#include "trainer/cuda/plugin/libraries.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>

namespace triplepoint::trainer::cuda {

std::string release_of(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

namespace {

constexpr int oldest_driver = 12000;  // 1000 major + 10 minor

/// The folder, and those of packages below it: pip installs nvidia/cublas/lib, nvidia/nccl/lib.
std::vector<std::string> folders_below(const std::string& folder) {
  std::vector<std::string> all = {folder}, below;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed))
    if (std::error_code none; std::filesystem::is_directory(entry->path() / "lib", none))
      below.push_back((entry->path() / "lib").string());
  std::sort(below.begin(), below.end());
  all.insert(all.end(), below.begin(), below.end());
  return all;
}

/// Files to try, in order: those of the named folder alone, or as the system finds them and then in
/// the other folders.
std::vector<std::string> candidates(const DeviceSettings& settings,
                                    const std::vector<std::string>& names) {
  std::vector<std::string> files;
  const auto add = [&](const std::string& folder) {
    for (const std::string& name : names)
      files.push_back(folder.empty() ? name : fmt::format("{}/{}", folder, name));
  };
  if (!settings.libraries.empty()) {
    for (const std::string& folder : folders_below(settings.libraries))
      add(folder);
    return files;
  }
  add("");
  for (const std::string& folder : settings.more_folders)
    add(folder);
  return files;
}

/// A driver belongs to the kernel's module, so a named folder need not have one.
std::vector<std::string> driver_candidates(const DeviceSettings& settings) {
  std::vector<std::string> files = candidates(settings, {"libcuda.so.1"});
  std::error_code failed;
  if (std::filesystem::is_directory(settings.libraries, failed)) files.emplace_back("libcuda.so.1");
  return files;
}

/// The first of the files that opens and is accepted. Never closed: drivers do not survive that.
template <class Accept>
std::string open_first(const std::vector<std::string>& files, void*& library,
                       const Accept& accept) {
  std::string why;
  for (const std::string& file : files) {
    library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const std::string problem = dlerror();
      std::error_code failed;
      // A file that is there and does not open says more than one that is not.
      if (why.empty() || std::filesystem::exists(file, failed)) why = problem;
    } else if (const std::string refused = accept(library); refused.empty()) {
      return file;
    } else {
      why = fmt::format("{}: {}", file, refused);
    }
  }
  library = nullptr;
  return why;
}

template <class Accept>
void* open_one(const std::vector<std::string>& files, const char* what, const char* remedy,
               std::string* opened, const Accept& accept) {
  void* library = nullptr;
  std::string text = open_first(files, library, accept);
  if (library == nullptr)
    throw CudaError(fmt::format("{} was not found ({}); {}", what, text, remedy));
  if (opened != nullptr) *opened = std::move(text);
  return library;
}

std::string accept_any(void*) {
  return {};
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

#define TPT_FIND(field, name, ...) find(library, #name, table.field);

void open_driver(const DeviceSettings& settings, Libraries& libraries) {
  void* library = open_one(driver_candidates(settings), "libcuda.so.1", "install NVIDIA's driver",
                           nullptr, accept_any);
  Driver& table = libraries.driver;
  TPT_DRIVER_CALLS(TPT_FIND)
  int version = 0;
  libraries.check(libraries.driver.driver_version(&version), "tell its version");
  if (version < oldest_driver)
    throw CudaError(
        fmt::format("the driver knows CUDA {} and {} is needed; install a newer driver, or use "
                    "--device cpu",
                    release_of(version), release_of(oldest_driver)));
  libraries.driver_version = version;
}

/// Why a driver does not serve a cuBLASLt: libraries of a later major release of CUDA need a later
/// driver; those of earlier ones, and of any minor release, do not.
std::string problem_of_blas(void* library, int driver_version) {
  const auto release = reinterpret_cast<size_t (*)()>(dlsym(library, "cublasLtGetCudartVersion"));
  if (release == nullptr) return {};
  const auto version = static_cast<int>(release());
  if (version / 1000 <= driver_version / 1000) return {};
  return fmt::format("it is of CUDA {} and the driver knows CUDA {}", release_of(version),
                     release_of(driver_version));
}

void open_blas(const DeviceSettings& settings, Libraries& libraries) {
  const int driver = libraries.driver_version;
  const std::string remedy = fmt::format(
      "install cuBLAS of CUDA {0} (or pip install nvidia-cublas-cu{0}) or a newer driver, or name "
      "cuBLAS's folder with --device-libraries",
      std::min(driver / 1000, 13));
  void* library =
      open_one(candidates(settings, {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}),
               "a cuBLASLt that the driver serves", remedy.c_str(), &libraries.blas_file,
               [driver](void* found) { return problem_of_blas(found, driver); });
  BlasLibrary& table = libraries.blas;
  TPT_BLAS_CALLS(TPT_FIND)
}

void open_nccl(const DeviceSettings& settings, Libraries& libraries) {
  void* library = open_one(candidates(settings, {"libnccl.so.2", "libnccl.so"}), "libnccl.so.2",
                           "install NCCL (or pip install nvidia-nccl-cu12), or train with one rank",
                           nullptr, accept_any);
  NcclLibrary& table = libraries.nccl;
  TPT_NCCL_CALLS(TPT_FIND)
}

#undef TPT_FIND

}  // namespace

Libraries open_libraries(const DeviceSettings& settings) {
  Libraries libraries;
  open_driver(settings, libraries);
  open_blas(settings, libraries);
  if (settings.collectives) open_nccl(settings, libraries);
  return libraries;
}

void Libraries::check(int result, const char* what) const {
  if (result == 0) return;
  const char* text = nullptr;
  driver.error_text(result, &text);
  std::string memory;
  size_t free = 0, total = 0;
  if (result == out_of_memory && driver.memory_info(&free, &total) == 0)
    memory = fmt::format(
        "; {:.2f} GB of the GPU's {:.2f} GB are free: lower --device-memory-share, or end other "
        "processes on it (nvidia-smi names them)",
        static_cast<double>(free) * 1e-9, static_cast<double>(total) * 1e-9);
  throw CudaError(fmt::format("CUDA could not {} ({}, error {}){}", what,
                              text != nullptr ? text : "unknown", result, memory));
}

void Libraries::check_blas(int status, const char* what) const {
  if (status == 0) return;
  throw CudaError(fmt::format("cuBLASLt could not {} ({})", what, blas.status_text(status)));
}

void Libraries::check_nccl(int result, const char* what) const {
  if (result == 0 || result == nccl_in_progress) return;
  throw CudaError(fmt::format("NCCL could not {} ({}); set NCCL_DEBUG=WARN for details", what,
                              nccl.error_text(result)));
}

}  // namespace triplepoint::trainer::cuda
