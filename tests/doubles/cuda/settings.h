// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

/// What a test asks of the double of CUDA's driver; found by its name with dlsym.
namespace triplepoint::trainer::cuda_double {

struct Settings {
  std::atomic<int> gpus{8};
  std::atomic<int> driver_version{13000};  // as cuDriverGetVersion has it: 1000 major + 10 minor
  std::atomic<bool> refuses_kernels{false};
  std::atomic<int> launch_us{0};              // every kernel lasts this long
  std::atomic<int> start_error{0};            // of cuInit
  std::atomic<int> shared_bytes{227 * 1024};  // that a block of threads can have
  std::atomic<int64_t> free_bytes{int64_t{256} << 20};
  std::atomic<int> cublas_runtime{12000};  // release of CUDA that cuBLASLt is of
  std::atomic<int> algorithms{3};          // that cuBLASLt proposes at most
  std::atomic<int> broken_algorithms{0};   // of these, that multiply nothing
  std::atomic<int> products{0};            // multiplied by cuBLASLt
};
inline constexpr const char* settings_symbol = "fake_cuda_settings";
using SettingsEntry = Settings* (*)();

}  // namespace triplepoint::trainer::cuda_double
