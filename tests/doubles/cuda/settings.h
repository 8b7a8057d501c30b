// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

/// What a test asks of the double of CUDA's driver; found by its name with dlsym.
namespace triplepoint::trainer::cuda_double {

struct Settings {
  std::atomic<int> gpus{8};
  std::atomic<int> driver_version{13000};  // as cuDriverGetVersion has it: 1000 major + 10 minor
  std::atomic<bool> refuses_kernels{false};
  std::atomic<int> launch_us{0};  // every kernel lasts this long
};
inline constexpr const char* settings_symbol = "fake_cuda_settings";
using SettingsEntry = Settings* (*)();

}  // namespace triplepoint::trainer::cuda_double
