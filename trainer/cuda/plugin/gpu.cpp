// SPDX-License-Identifier: Apache-2.0
#include "trainer/cuda/plugin/gpu.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "trainer/comm/transport.h"
#include "trainer/cuda/plugin/image.h"

namespace triplepoint::trainer::cuda {
namespace {

constexpr int64_t most_unasked = 49152;  // bytes of a block's memory
constexpr int64_t first_ring_bytes = int64_t{1} << 20;

}  // namespace

Gpu::Gpu(const DeviceSettings& settings, const Libraries& libraries)
    : libraries_(libraries), settings_(settings) {
  const auto check = [this](int result, const char* what) { libraries_.check(result, what); };
  check(driver().init(0), "start");
  int count = 0;
  check(driver().device_count(&count), "count the GPUs");
  if (count == 0) throw CudaError("no GPU is visible (see CUDA_VISIBLE_DEVICES); use --device cpu");
  check(driver().device(&device_, settings.ordinal % count), "open the GPU");
  Context context = nullptr;
  check(driver().retain_context(&context, device_), "open a context");
  check(driver().set_context(context), "use its context");
  char name[256] = {};
  check(driver().device_name(name, sizeof name, device_), "tell its name");
  name_ = name;
  check(driver().device_attribute(&multiprocessors_, multiprocessor_count, device_),
        "count its multiprocessors");
  check(driver().make_stream(&stream_, non_blocking), "make a stream");
  load_kernels();
  make_ring(first_ring_bytes);
  size_t free = 0, total = 0;
  check(driver().memory_info(&free, &total), "tell its memory");
  const auto bytes = static_cast<int64_t>(static_cast<double>(free) * settings.memory_share);
  check(driver().allocate(&block_, static_cast<size_t>(bytes)), "allocate its memory");
  arena_ = std::make_unique<Arena>(static_cast<char*>(block_), bytes);
}

Gpu::~Gpu() {
  driver().finish_stream(stream_);
  driver().release(block_);
  driver().release(ring_);
  driver().release_host(pinned_);
  driver().unload_module(module_);
  driver().drop_stream(stream_);
  driver().release_context(device_);
}

void Gpu::load_kernels() {
  if (const int result = driver().load_module(&module_, kernel_image()); result != 0) {
    const char* text = nullptr;
    driver().error_text(result, &text);
    throw CudaError(
        fmt::format("the kernels could not be loaded ({}; {}); build the plug-in with "
                    "nvcc for this GPU",
                    text != nullptr ? text : "unknown error",
                    has_kernel_image() ? "they are made for compute capability 8.0 and up"
                                       : "it was built without nvcc"));
  }
#define TPT_FIND(Body, ...)                                                    \
  libraries_.check(driver().function(&functions_.Body, module_, "tpt_" #Body), \
                   "find the kernel " #Body);
  TPT_ELEMENTWISE_KERNELS(TPT_FIND)
  TPT_BLOCK_KERNELS(TPT_FIND)
#undef TPT_FIND
}

std::string Gpu::text() const {
  return fmt::format("{}, {} multiprocessors, {:.1f} GB for arrays", name_, multiprocessors_,
                     static_cast<double>(arena_->bytes()) * 1e-9);
}

float* Gpu::allocate(int64_t count, bool bf16) {
  if (float* array = arena_->allocate(count, bf16)) return array;
  throw CudaError(
      fmt::format("the GPU's memory is full ({} of {:.1f} GB are in use, and {:.1f} MB more "
                  "are wanted); take a smaller microbatch, more recomputation or more ranks",
                  fmt::format("{:.1f}", static_cast<double>(arena_->used()) * 1e-9),
                  static_cast<double>(arena_->bytes()) * 1e-9,
                  static_cast<double>(count) * (bf16 ? 2e-6 : 4e-6)));
}

/// A thread per number, rows on their own axis so that no kernel divides.
Gpu::Grid Gpu::element_grid(int64_t rows, int64_t width) {
  constexpr int64_t most_y = 65535, most_x = int64_t{1} << 20;
  const int64_t x = (width + element_threads - 1) / element_threads;
  return {std::min(x, most_x), std::min(rows, most_y), 1};
}

void Gpu::launch(Function function, Grid grid, int threads, int64_t memory, void** arguments) {
  const auto size = [](int64_t n) { return static_cast<unsigned>(n); };
  if (memory > most_unasked)  // more must be asked for
    libraries_.check(driver().set_attribute(function, max_dynamic_shared, static_cast<int>(memory)),
                     "give a kernel its memory");
  libraries_.check(driver().launch(function, size(grid.x), size(grid.y), size(grid.z),
                                   static_cast<unsigned>(threads), 1, 1, size(memory), stream_,
                                   arguments, nullptr),
                   "launch a kernel");
}

void Gpu::make_ring(int64_t bytes) {
  if (ring_ != nullptr) driver().release(ring_);
  if (pinned_ != nullptr) driver().release_host(pinned_);
  void* pinned = nullptr;
  libraries_.check(driver().allocate_host(&pinned, static_cast<size_t>(bytes)),
                   "allocate pinned memory");
  pinned_ = static_cast<char*>(pinned);
  libraries_.check(driver().allocate(&ring_, static_cast<size_t>(bytes)), "allocate memory");
  ring_bytes_ = bytes;
  ring_at_ = 0;
}

const int32_t* Gpu::upload(const int32_t* numbers, int64_t count) {
  const int64_t bytes = (count * 4 + 255) / 256 * 256;
  if (ring_at_ + bytes > ring_bytes_) {
    finish(stream_);  // nobody reads the ring any more
    ring_at_ = 0;
    if (bytes > ring_bytes_) make_ring(2 * bytes);
  }
  std::memcpy(pinned_ + ring_at_, numbers, static_cast<size_t>(count) * 4);
  char* place = static_cast<char*>(ring_) + ring_at_;
  libraries_.check(
      driver().to_device(place, pinned_ + ring_at_, static_cast<size_t>(count) * 4, stream_),
      "copy to the GPU");
  ring_at_ += bytes;
  return reinterpret_cast<const int32_t*>(place);
}

void Gpu::finish(Stream stream) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  for (;;) {
    const int result = driver().query_stream(stream);
    if (result == 0) return;
    if (result != not_ready) libraries_.check(result, "finish its work");
    const double waited = std::chrono::duration<double>(Clock::now() - begin).count();
    if (settings_.collectives && waited > settings_.timeout_seconds)
      throw CommError(
          fmt::format("a GPU has not ended its work for {:.3g} s (a rank of one of its "
                      "groups does not answer); see what the others said last, or allow a "
                      "longer timeout",
                      waited));
    if (waited < 1e-3)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

Event Gpu::make_event() const {
  Event event = nullptr;
  libraries_.check(driver().make_event(&event, disable_timing), "make an event");
  return event;
}

}  // namespace triplepoint::trainer::cuda
