// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/gpu_list.h"

#include <vector>

#include <fmt/format.h>

#include "triplepoint/base/json.h"

#include "trainer/cuda/device.h"

namespace triplepoint::trainer {
namespace {

Result<std::vector<GpuIdentity>> find_gpus(const GpuChoice& choice) {
  DeviceSettings settings;
  settings.libraries = choice.libraries;
  std::vector<GpuIdentity> gpus = {TPT_TRY(identify_gpu(choice.plugin, settings))};
  for (settings.ordinal = 1; settings.ordinal < gpus.front().visible; ++settings.ordinal)
    gpus.push_back(TPT_TRY(identify_gpu(choice.plugin, settings)));
  return gpus;
}

/// As nvidia-smi writes it.
std::string uuid_text(const GpuIdentity& gpu) {
  std::string text = "GPU-";
  for (size_t i = 0; i < gpu.uuid.size(); ++i)
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", gpu.uuid[i]);
  return text;
}

std::string capability_text(const GpuIdentity& gpu) {
  return fmt::format("{}.{}", gpu.capability_major, gpu.capability_minor);
}

}  // namespace

Result<std::string> gpu_list_text(const GpuChoice& choice) {
  const std::vector<GpuIdentity> gpus = TPT_TRY(find_gpus(choice));
  std::string text = fmt::format("driver for CUDA {}, cuBLASLt: {}\n", gpus.front().driver_release,
                                 gpus.front().blas_file);
  for (const GpuIdentity& gpu : gpus)
    text += fmt::format("gpu {}  {}, {:.1f} GB, compute capability {}, {}\n", gpu.ordinal, gpu.name,
                        static_cast<double>(gpu.memory_bytes) * 1e-9, capability_text(gpu),
                        uuid_text(gpu));
  return text;
}

Result<std::string> gpu_list_json(const GpuChoice& choice) {
  const std::vector<GpuIdentity> gpus = TPT_TRY(find_gpus(choice));
  Json list = Json::array();
  for (const GpuIdentity& gpu : gpus)
    list.push_back({{"gpu", gpu.ordinal},
                    {"name", gpu.name},
                    {"memory_b", gpu.memory_bytes},
                    {"compute_capability", capability_text(gpu)},
                    {"uuid", uuid_text(gpu)}});
  return json_text({{"driver_cuda", gpus.front().driver_release},
                    {"cublaslt", gpus.front().blas_file},
                    {"gpus", list}}) +
         "\n";
}

}  // namespace triplepoint::trainer
