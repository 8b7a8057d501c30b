// SPDX-License-Identifier: Apache-2.0
// What the program finds in the plug-in.
#include <algorithm>
#include <cstring>

#include "trainer/cuda/plugin/gpu_communicator.h"
#include "trainer/cuda/plugin/gpu_math.h"

namespace triplepoint::trainer::cuda {
namespace {

class GpuDevice final : public Device {
 public:
  explicit GpuDevice(const DeviceSettings& settings)
      : gpu_(settings, open_libraries(settings.libraries, settings.collectives)),
        math_(gpu_, settings.rounding) {}

  Math& math() override { return math_; }
  std::unique_ptr<Communicator> communicator(std::unique_ptr<Communicator> host) override {
    return std::make_unique<GpuCommunicator>(gpu_, std::move(host));
  }
  std::string text() const override { return gpu_.text(); }

 private:
  Gpu gpu_;
  GpuMath math_;
};

Device* open(const DeviceSettings& settings, char* error, size_t error_size) {
  try {
    return new GpuDevice(settings);
  } catch (const std::exception& thrown) {
    const std::string what = thrown.what();
    const size_t length = std::min(what.size(), error_size - 1);
    std::memcpy(error, what.data(), length);
    error[length] = 0;
    return nullptr;
  }
}

}  // namespace
}  // namespace triplepoint::trainer::cuda

extern "C" __attribute__((visibility("default"))) const triplepoint::trainer::DevicePlugin*
triplepoint_train_cuda() {
  using namespace triplepoint::trainer;
  static const DevicePlugin plugin{device_plugin_version, sizeof(DevicePlugin), cuda::open};
  return &plugin;
}
