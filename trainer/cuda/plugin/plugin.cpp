// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <memory>

#include "trainer/cuda/plugin/gpu.h"
#include "trainer/cuda/plugin/gpu_communicator.h"
#include "trainer/cuda/plugin/gpu_math.h"

// What the program finds in the plug-in.

namespace triplepoint::trainer::cuda {
namespace {

class GpuDevice final : public Device {
 public:
  explicit GpuDevice(const DeviceSettings& settings)
      : gpu_(settings, open_libraries(settings)), math_(gpu_, settings.rounding) {}

  Math& math() override { return math_; }
  std::unique_ptr<Communicator> communicator(std::unique_ptr<Communicator> host) override {
    return std::make_unique<GpuCommunicator>(gpu_, std::move(host));
  }
  Result<void> check_attention(const Attention& shape) const override {
    return math_.check_attention(shape);
  }
  int64_t bytes_for_arrays() const override { return gpu_.bytes_for_arrays(); }
  std::string text() const override { return gpu_.text(); }

 private:
  Gpu gpu_;
  GpuMath math_;
};

void write_text(const std::string& text, char* to, size_t size) {
  const size_t length = std::min(text.size(), size - 1);
  std::memcpy(to, text.data(), length);
  to[length] = 0;
}

Device* open(const DeviceSettings& settings, char* error, size_t error_size) {
  try {
    return new GpuDevice(settings);
  } catch (const std::exception& thrown) {
    write_text(thrown.what(), error, error_size);
    return nullptr;
  }
}

bool identify(const DeviceSettings& settings, GpuIdentity* identity, char* error,
              size_t error_size) {
  try {
    *identity = Gpu::identify(settings, open_libraries(settings));
    return true;
  } catch (const std::exception& thrown) {
    write_text(thrown.what(), error, error_size);
    return false;
  }
}

}  // namespace

}  // namespace triplepoint::trainer::cuda
extern "C" __attribute__((visibility("default"))) const triplepoint::trainer::DevicePlugin*
triplepoint_train_cuda() {
  using namespace triplepoint::trainer;
  static const DevicePlugin plugin{device_plugin_version, sizeof(DevicePlugin),
                                   cuda::kernel_image_bytes(), cuda::open, cuda::identify};
  return &plugin;
}
