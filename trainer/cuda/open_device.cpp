// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>

#include "trainer/cuda/device.h"
#include "trainer/cuda/library_folders.h"

namespace triplepoint::trainer {
namespace {

constexpr const char* plugin_name = "libtriplepoint-train-cuda.so";

/// Beside the program, in its lib folder, and wherever the system looks.
std::vector<std::string> places() {
  std::error_code failed;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) return {plugin_name};
  const auto folder = program.parent_path();
  return {(folder / plugin_name).string(),
          (folder.parent_path() / "lib" / "triplepoint" / plugin_name).string(), plugin_name};
}

/// Stays open until the process ends: its objects may outlive any scope here.
Result<void*> open_library(const std::string& plugin) {
  std::string why;
  for (const std::string& place : plugin.empty() ? places() : std::vector<std::string>{plugin}) {
    if (void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    why = dlerror();
  }
  return error(
      fmt::format("the GPU plug-in was not found ({}); build on a machine with nvcc (cmake reports "
                  "whether it was found), name it with --device-plugin, or train with --device cpu",
                  why));
}

Result<const DevicePlugin*> open_plugin(const std::string& plugin) {
  void* library = TPT_TRY(open_library(plugin));
  const auto entry = reinterpret_cast<DevicePluginEntry>(dlsym(library, device_plugin_symbol));
  const DevicePlugin* table = entry != nullptr ? entry() : nullptr;
  if (table == nullptr || table->version != device_plugin_version ||
      table->size != sizeof(DevicePlugin))
    return error(
        fmt::format("the GPU plug-in has another version ({} instead of {}); install program and "
                    "plug-in from one build",
                    table != nullptr ? table->version : 0, device_plugin_version));
  return table;
}

/// With the folders in which the plug-in looks for libraries that the system's loader misses.
DeviceSettings with_folders(DeviceSettings settings) {
  settings.more_folders = cuda_library_folders([](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == 0) return std::nullopt;
    return value;
  });
  return settings;
}

}  // namespace

Result<std::unique_ptr<Device>> open_device(const std::string& plugin,
                                            const DeviceSettings& wanted) {
  const DevicePlugin* table = TPT_TRY(open_plugin(plugin));
  const DeviceSettings settings = with_folders(wanted);
  std::array<char, 1024> why{};
  std::unique_ptr<Device> device(table->open(settings, why.data(), why.size()));
  if (device == nullptr) return error(why.data());
  return device;
}

Result<GpuIdentity> identify_gpu(const std::string& plugin, const DeviceSettings& wanted) {
  const DevicePlugin* table = TPT_TRY(open_plugin(plugin));
  const DeviceSettings settings = with_folders(wanted);
  std::array<char, 1024> why{};
  GpuIdentity identity;
  if (!table->identify(settings, &identity, why.data(), why.size())) return error(why.data());
  return identity;
}

void prepare_gpu_environment() {
  // Streams that share a queue of the GPU wait for each other; there is one per group and line, and
  // a collective at the head of a shared queue could wait for one behind it. Default: 8.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

}  // namespace triplepoint::trainer
