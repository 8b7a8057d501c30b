// SPDX-License-Identifier: Apache-2.0
// CUDA's driver, on host memory. Eight GPUs of 256 MiB; copies from pinned memory are made when the
// stream comes to them, others when they are asked for, as the real one does.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <thread>

#include <sys/mman.h>

#include "tests/doubles/cuda/settings.h"
#include "tests/doubles/cuda/streams.h"
#include "trainer/cuda/api/driver.h"

using namespace triplepoint::trainer::cuda;
using namespace triplepoint::trainer::cuda_double;

#define TPT_EXPORTED extern "C" __attribute__((visibility("default")))

namespace triplepoint::trainer::cuda {
struct StreamOf {
  StreamState state;
};
struct EventOf {
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
};
struct FunctionOf {
  Bind bind;
};
struct GraphOf {
  std::vector<Act> acts;
};
struct GraphExecOf {
  std::vector<Act> acts;
};
}  // namespace triplepoint::trainer::cuda

namespace {

constexpr int invalid_value = 1, no_binary = 209, not_found = 500;

/// Processes that load the double by themselves are told by their environment.
int from_environment(const char* name, int usual) {
  const char* text = std::getenv(name);
  return text == nullptr ? usual : std::atoi(text);
}

struct SettingsOfProcess : Settings {
  SettingsOfProcess() {
    gpus = from_environment("FAKE_CUDA_GPUS", gpus);
    broken_algorithms = from_environment("FAKE_CUDA_BROKEN_ALGORITHMS", broken_algorithms);
  }
};
SettingsOfProcess settings;

struct Pinned {
  std::mutex mutex;
  std::set<std::pair<uintptr_t, uintptr_t>> ranges;  // begin, end

  bool holds(const void* address) {
    const std::lock_guard lock(mutex);
    const auto at = reinterpret_cast<uintptr_t>(address);
    for (const auto& [begin, end] : ranges)
      if (at >= begin && at < end) return true;
    return false;
  }
};
Pinned pinned;

struct Sizes {
  std::mutex mutex;
  std::set<std::pair<DevicePointer, size_t>> of;
};
Sizes sizes;

void* host(DevicePointer pointer) {
  return pointer;
}

int device_now(int device, int* result) {
  *result = device;
  return device >= 0 && device < settings.gpus ? 0 : invalid_value;
}

}  // namespace

void give_to_stream(Stream stream, Act act) {
  stream->state.give(std::move(act));
}

TPT_EXPORTED Settings* fake_cuda_settings() {
  return &settings;
}
TPT_EXPORTED int cuDriverGetVersion(int* version) {
  *version = settings.driver_version;
  return 0;
}
TPT_EXPORTED int cuDeviceGetUuid_v2(GpuUuid* uuid, int device) {
  *uuid = {};
  uuid->bytes[15] = static_cast<char>(device + 1);
  return 0;
}
TPT_EXPORTED int cuInit(unsigned) {
  return settings.start_error;
}
TPT_EXPORTED int cuGetErrorString(int error, const char** text) {
  *text = error == not_found       ? "named symbol not found"
          : error == out_of_memory ? "out of memory"
                                   : "invalid argument";
  return 0;
}
TPT_EXPORTED int cuDeviceGetCount(int* count) {
  *count = settings.gpus;
  return 0;
}
TPT_EXPORTED int cuDeviceGet(int* device, int ordinal) {
  return device_now(ordinal, device);
}
TPT_EXPORTED int cuDeviceGetName(char* name, int size, int) {
  std::strncpy(name, "a double of a GPU", static_cast<size_t>(size));
  return 0;
}
TPT_EXPORTED int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == multiprocessor_count ? 2 : 9;
  if (attribute == capability_minor) *value = 0;
  if (attribute == shared_memory_per_block) *value = settings.shared_bytes;
  return 0;
}
TPT_EXPORTED int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = size_t{256} << 20;
  return 0;
}
TPT_EXPORTED int cuDevicePrimaryCtxRetain(Context* context, int) {
  static char one = 0;
  *context = reinterpret_cast<Context>(&one);
  return 0;
}
TPT_EXPORTED int cuDevicePrimaryCtxRelease_v2(int) {
  return 0;
}
TPT_EXPORTED int cuCtxSetCurrent(Context) {
  return 0;
}
TPT_EXPORTED int cuMemGetInfo_v2(size_t* free, size_t* total) {
  *free = static_cast<size_t>(settings.free_bytes);
  *total = size_t{256} << 20;
  return 0;
}
TPT_EXPORTED int cuMemAlloc_v2(DevicePointer* pointer, size_t bytes) {
  if (bytes > static_cast<size_t>(settings.free_bytes)) return out_of_memory;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return out_of_memory;
  *pointer = memory;
  const std::lock_guard lock(sizes.mutex);
  sizes.of.insert({*pointer, bytes});
  return 0;
}
TPT_EXPORTED int cuMemFree_v2(DevicePointer pointer) {
  const std::lock_guard lock(sizes.mutex);
  const auto found = sizes.of.lower_bound({pointer, 0});
  if (found == sizes.of.end() || found->first != pointer) return invalid_value;
  munmap(host(pointer), found->second);
  sizes.of.erase(found);
  return 0;
}
TPT_EXPORTED int cuMemAllocHost_v2(void** pointer, size_t bytes) {
  *pointer = ::operator new(bytes);
  const auto at = reinterpret_cast<uintptr_t>(*pointer);
  const std::lock_guard lock(pinned.mutex);
  pinned.ranges.insert({at, at + bytes});
  return 0;
}
TPT_EXPORTED int cuMemFreeHost(void* pointer) {
  const std::lock_guard lock(pinned.mutex);
  pinned.ranges.erase(pinned.ranges.lower_bound({reinterpret_cast<uintptr_t>(pointer), 0}));
  ::operator delete(pointer);
  return 0;
}
TPT_EXPORTED int cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, size_t bytes,
                                      Stream stream) {
  if (pinned.holds(from)) {
    give_to_stream(stream, [=] { std::memcpy(host(to), from, bytes); });
    return 0;
  }
  const auto* begin = static_cast<const char*>(from);
  give_to_stream(stream, [to, staged = std::vector<char>(begin, begin + bytes)] {
    std::memcpy(host(to), staged.data(), staged.size());
  });
  return 0;
}
TPT_EXPORTED int cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, size_t bytes, Stream stream) {
  give_to_stream(stream, [=] { std::memcpy(to, host(from), bytes); });
  return 0;
}
TPT_EXPORTED int cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t bytes,
                                      Stream stream) {
  give_to_stream(stream, [=] { std::memmove(host(to), host(from), bytes); });
  return 0;
}
TPT_EXPORTED int cuMemsetD8Async(DevicePointer to, unsigned char value, size_t bytes,
                                 Stream stream) {
  give_to_stream(stream, [=] { std::memset(host(to), value, bytes); });
  return 0;
}
TPT_EXPORTED int cuStreamCreate(Stream* stream, unsigned) {
  *stream = new StreamOf;
  return 0;
}
TPT_EXPORTED int cuStreamDestroy_v2(Stream stream) {
  delete stream;
  return 0;
}
TPT_EXPORTED int cuStreamSynchronize(Stream stream) {
  stream->state.finish();
  return 0;
}
TPT_EXPORTED int cuStreamQuery(Stream stream) {
  return stream->state.idle() ? 0 : not_ready;
}
TPT_EXPORTED int cuStreamWaitEvent(Stream stream, Event event, unsigned) {
  const uint64_t record = event->state->recorded();
  give_to_stream(stream, [state = event->state, record] { state->wait(record); });
  return 0;
}
TPT_EXPORTED int cuEventCreate(Event* event, unsigned) {
  *event = new EventOf;
  return 0;
}
TPT_EXPORTED int cuEventRecord(Event event, Stream stream) {
  const uint64_t record = event->state->begin_record();
  give_to_stream(stream, [state = event->state, record] { state->complete(record); });
  return 0;
}
TPT_EXPORTED int cuEventQuery(Event event) {
  return event->state->is_over(event->state->recorded()) ? 0 : not_ready;
}
TPT_EXPORTED int cuEventDestroy_v2(Event event) {
  delete event;
  return 0;
}
TPT_EXPORTED int cuEventElapsedTime(float* milliseconds, Event, Event) {
  *milliseconds = 1;
  return 0;
}
TPT_EXPORTED int cuModuleLoadData(Module* module, const void* image) {
  *module = reinterpret_cast<Module>(const_cast<void*>(image));
  if (settings.refuses_kernels) return no_binary;
  return image != nullptr ? 0 : invalid_value;
}
TPT_EXPORTED int cuModuleUnload(Module) {
  return 0;
}
TPT_EXPORTED int cuModuleGetFunction(Function* function, Module, const char* name) {
  const Bind bind = find_kernel(name);
  if (bind == nullptr) return not_found;
  // They live as long as the process, as those of a driver do.
  static std::mutex mutex;
  static std::map<std::string, FunctionOf> functions;
  const std::lock_guard lock(mutex);
  *function = &functions.emplace(name, FunctionOf{bind}).first->second;
  return 0;
}
TPT_EXPORTED int cuFuncSetAttribute(Function, int attribute, int value) {
  return attribute == max_dynamic_shared && value <= settings.shared_bytes ? 0 : invalid_value;
}
TPT_EXPORTED int cuLaunchKernel(Function function, unsigned x, unsigned y, unsigned z,
                                unsigned threads, unsigned, unsigned, unsigned memory,
                                Stream stream, void** arguments, void**) {
  if (x == 0 || y == 0 || z == 0 || y > 65535 || z > 65535 || threads > 1024) return invalid_value;
  Act act = function->bind({{x, y, z}, threads, memory}, arguments);
  if (const int us = settings.launch_us; us > 0)
    act = [us, act = std::move(act)] {
      std::this_thread::sleep_for(std::chrono::microseconds(us));
      act();
    };
  give_to_stream(stream, std::move(act));
  return 0;
}
TPT_EXPORTED int cuStreamBeginCapture_v2(Stream stream, int) {
  stream->state.begin_capture();
  return 0;
}
TPT_EXPORTED int cuStreamEndCapture(Stream stream, Graph* graph) {
  *graph = new GraphOf{stream->state.end_capture()};
  return 0;
}
TPT_EXPORTED int cuGraphInstantiateWithFlags(GraphExec* exec, Graph graph, unsigned long long) {
  *exec = new GraphExecOf{graph->acts};
  return 0;
}
TPT_EXPORTED int cuGraphLaunch(GraphExec exec, Stream stream) {
  for (const Act& act : exec->acts)
    give_to_stream(stream, act);
  return 0;
}
TPT_EXPORTED int cuGraphDestroy(Graph graph) {
  delete graph;
  return 0;
}
TPT_EXPORTED int cuGraphExecDestroy(GraphExec exec) {
  delete exec;
  return 0;
}
