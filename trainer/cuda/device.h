// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"

#include "trainer/comm/communicator.h"
#include "trainer/math/math.h"

namespace triplepoint::trainer {

/// What a rank wants of a GPU.
struct DeviceSettings {
  int ordinal = 0;  // among those this process sees, modulo their number
  Rounding rounding = Rounding::none;
  bool tensor_cores_for_fp32 = false;  // products of fp32 numbers in TF32
  bool collectives = false;            // opens NCCL
  double memory_share = 0.9;           // of what is free, for all arrays
  double timeout_seconds = 60;         // how long work may not end where other ranks take part
  std::string libraries;  // folder of the vendor's libraries; empty: as the system finds them
  std::vector<std::string> more_folders;  // looked in after the system's, where none is named
  std::function<void(const std::string&)> remark;  // takes what the user should know
};

/// Which GPU a rank would take, and what it is.
struct GpuIdentity {
  std::array<unsigned char, 16> uuid{};
  int ordinal = 0, visible = 0;  // among those that this process sees; how many these are
  std::string name;
  int64_t memory_bytes = 0;
  int capability_major = 0, capability_minor = 0;  // of its instructions: 9.0 is Hopper's
  std::string driver_release, blas_file;           // "12.4": the newest CUDA that it serves
};

/// One GPU as one rank uses it. Its Math returns before it is done; its communicators carry its own
/// arrays by NCCL, on their own streams, and everything else by the one they were made from.
class Device {
 public:
  virtual ~Device() = default;
  virtual Math& math() = 0;
  /// All ranks make their communicators in the same order.
  virtual std::unique_ptr<Communicator> communicator(std::unique_ptr<Communicator> host) = 0;
  /// Refuses heads that no kernel for them fits this GPU.
  virtual Result<void> check_attention(const Attention&) const = 0;
  /// Memory of all arrays: the block's size, or what it would be now.
  virtual int64_t bytes_for_arrays() const = 0;
  virtual std::string text() const = 0;  // "NVIDIA H200, 132 multiprocessors, 126 GB for arrays"
};

/// What the plug-in libtriplepoint-train-cuda.so gives: found by name, checked by version. Compiler
/// and library of both sides are the same build's, so objects of C++ may pass.
struct DevicePlugin {
  uint32_t version = 0, size = 0;
  uint64_t kernel_bytes = 0;  // of the compiled kernels in it; 0: it was built without nvcc
  /// Null, and a sentence, where it cannot.
  Device* (*open)(const DeviceSettings&, char* error, size_t error_size) = nullptr;
  /// False, and a sentence, where it cannot; takes nothing of the GPU.
  bool (*identify)(const DeviceSettings&, GpuIdentity*, char* error, size_t error_size) = nullptr;
};
inline constexpr uint32_t device_plugin_version = 5;
inline constexpr const char* device_plugin_symbol = "triplepoint_train_cuda";
using DevicePluginEntry = const DevicePlugin* (*)();

/// Opens the plug-in (a path, or empty: beside the program, or as the system finds it) and a GPU.
Result<std::unique_ptr<Device>> open_device(const std::string& plugin, const DeviceSettings&);

/// The GPU that open_device would open.
Result<GpuIdentity> identify_gpu(const std::string& plugin, const DeviceSettings&);

/// Sets what CUDA reads from the environment when it starts, unless the user has set it. Called
/// before there are threads.
void prepare_gpu_environment();

}  // namespace triplepoint::trainer
