// SPDX-License-Identifier: Apache-2.0
#include "trainer/cuda/plugin/gpu.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "trainer/comm/transport.h"

#if !defined(TPT_KERNEL_IMAGE) && !defined(TPT_WITHOUT_KERNELS)
#error "the build must name the compiled kernels, or say that there are none (TPT_WITHOUT_KERNELS)"
#endif

#ifdef TPT_KERNEL_IMAGE
// The file that nvcc has made, as it is.
asm(".section .rodata\n"
    ".balign 64\n"
    ".local tpt_kernel_image\n"
    "tpt_kernel_image:\n"
    ".incbin \"" TPT_KERNEL_IMAGE
    "\"\n"
    ".local tpt_kernel_image_end\n"
    "tpt_kernel_image_end:\n"
    ".byte 0\n"
    ".text\n");
extern "C" const unsigned char tpt_kernel_image[], tpt_kernel_image_end[];
#else
namespace {
const unsigned char tpt_kernel_image[64] = {};
const unsigned char* const tpt_kernel_image_end = tpt_kernel_image;
}  // namespace
#endif

namespace triplepoint::trainer::cuda {

uint64_t kernel_image_bytes() {
  return static_cast<uint64_t>(tpt_kernel_image_end - tpt_kernel_image);
}

namespace {

/// The compiled kernels, contained in the plug-in; some bytes that are none where no nvcc was
/// found.
const void* kernel_image() {
  return tpt_kernel_image;
}

bool has_kernel_image() {
  return kernel_image_bytes() > 0;
}

constexpr int64_t most_unasked = 49152;  // bytes of a block's memory
constexpr int64_t first_ring_bytes = int64_t{1} << 20;
constexpr int64_t fetch_bytes = int64_t{4} << 20;  // at once

double gigabytes(int64_t bytes) {
  return static_cast<double>(bytes) * 1e-9;
}

/// What the driver's answer to its start most often means.
const char* remedy_of_start(int result) {
  switch (result) {
    case no_device:
      return "no GPU is visible: see CUDA_VISIBLE_DEVICES and nvidia-smi; containers need --gpus "
             "all";
    case system_not_ready:
      return "start nvidia-fabricmanager, which HGX boards need";
    case system_driver_mismatch:
      return "libcuda.so.1 is not of the loaded kernel module's release: reboot after an update of "
             "the driver, or take cuda-compat out of LD_LIBRARY_PATH";
    default:
      return "see whether nvidia-smi lists the GPU and dmesg has errors of it";
  }
}

int visible_gpus(const Libraries& libraries) {
  if (const int result = libraries.driver.init(0); result != 0) {
    const char* text = nullptr;
    libraries.driver.error_text(result, &text);
    throw CudaError(fmt::format("CUDA could not start ({}, error {}); {}, or use --device cpu",
                                text != nullptr ? text : "unknown", result,
                                remedy_of_start(result)));
  }
  int count = 0;
  libraries.check(libraries.driver.device_count(&count), "count the GPUs");
  if (count == 0) throw CudaError("no GPU is visible (see CUDA_VISIBLE_DEVICES); use --device cpu");
  return count;
}

std::string name_of(const Libraries& libraries, int device) {
  char name[256] = {};
  libraries.check(libraries.driver.device_name(name, sizeof name, device), "tell its name");
  return name;
}

/// Why compiled kernels were refused, and what to do.
std::string remedy_of_kernels(int version) {
#ifdef TPT_NVCC_RELEASE
  const std::string built = TPT_NVCC_RELEASE;
  if (std::atoi(built.c_str()) > version / 1000)
    return fmt::format(
        "they were built by nvcc {} and the driver knows CUDA {}; install a newer driver, or build "
        "the plug-in with CUDA {}",
        built, release_of(version), version / 1000);
#endif
  if (!has_kernel_image())
    return "it was built without nvcc; build the plug-in where cmake finds nvcc";
  return fmt::format(
      "they are made for compute capability 8.0 and up, and the driver knows CUDA {}; build the "
      "plug-in with nvcc for this GPU",
      release_of(version));
}

}  // namespace

GpuIdentity Gpu::identify(const DeviceSettings& settings, const Libraries& libraries) {
  GpuIdentity identity;
  identity.visible = visible_gpus(libraries);
  identity.ordinal = settings.ordinal % identity.visible;
  const Driver& driver = libraries.driver;
  int device = 0;
  libraries.check(driver.device(&device, identity.ordinal), "open the GPU");
  GpuUuid uuid{};
  libraries.check(driver.device_uuid(&uuid, device), "tell its UUID");
  std::memcpy(identity.uuid.data(), uuid.bytes, sizeof uuid.bytes);
  identity.name = name_of(libraries, device);
  size_t memory = 0;
  libraries.check(driver.device_memory(&memory, device), "tell its memory");
  identity.memory_bytes = static_cast<int64_t>(memory);
  for (const auto& [attribute, value] :
       {std::pair{cuda::capability_major, &identity.capability_major},
        std::pair{cuda::capability_minor, &identity.capability_minor}})
    libraries.check(driver.device_attribute(value, attribute, device), "tell its capability");
  identity.driver_release = release_of(libraries.driver_version);
  identity.blas_file = libraries.blas_file;
  return identity;
}

Gpu::Gpu(const DeviceSettings& settings, const Libraries& libraries)
    : libraries_(libraries), settings_(settings) {
  const auto check = [this](int result, const char* what) { libraries_.check(result, what); };
  const int count = visible_gpus(libraries);
  check(driver().device(&device_, settings.ordinal % count), "open the GPU");
  check(driver().retain_context(&context_, device_), "open a context");
  check(driver().set_context(context_), "use its context");
  name_ = name_of(libraries, device_);
  check(driver().device_attribute(&multiprocessors_, multiprocessor_count, device_),
        "count its multiprocessors");
  check(driver().device_attribute(&shared_bytes_, shared_memory_per_block, device_),
        "tell the memory of its multiprocessors");
  check(driver().make_stream(&stream_, non_blocking), "make a stream");
  load_kernels();
  make_ring(first_ring_bytes);
  check(driver().allocate_host(&fetched_, static_cast<size_t>(fetch_bytes)),
        "allocate pinned memory");
}

Gpu::~Gpu() {
  driver().finish_stream(stream_);
  for (const auto* marks : {&marks_, &spare_marks_})
    for (const Event mark : *marks)
      driver().drop_event(mark);
  if (block_ != nullptr) driver().release(block_);
  driver().release(ring_);
  driver().release_host(pinned_);
  driver().release_host(fetched_);
  driver().unload_module(module_);
  driver().drop_stream(stream_);
  driver().release_context(device_);
}

void Gpu::load_kernels() {
  if (const int result = driver().load_module(&module_, kernel_image()); result != 0) {
    const char* text = nullptr;
    driver().error_text(result, &text);
    throw CudaError(fmt::format("the kernels could not be loaded ({}): {}",
                                text != nullptr ? text : "unknown error",
                                remedy_of_kernels(libraries_.driver_version)));
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
                     gigabytes(bytes_for_arrays()));
}

int64_t Gpu::bytes_for_arrays() const {
  if (arena_) return arena_->bytes();
  size_t free = 0, total = 0;
  libraries_.check(driver().memory_info(&free, &total), "tell its memory");
  return static_cast<int64_t>(static_cast<double>(free) * settings_.memory_share);
}

void Gpu::take_block() {
  const int64_t bytes = bytes_for_arrays();
  const std::string what = fmt::format("allocate {:.2f} GB for arrays", gigabytes(bytes));
  libraries_.check(driver().allocate(&block_, static_cast<size_t>(bytes)), what.c_str());
  arena_ = std::make_unique<Arena>(static_cast<char*>(block_), bytes);
}

float* Gpu::allocate(int64_t count, bool bf16) {
  if (!arena_) take_block();
  if (float* array = arena_->allocate(count, bf16)) return array;
  const int64_t wanted = count * (bf16 ? 2 : 4), left = arena_->bytes() - arena_->used();
  throw CudaError(fmt::format(
      "the GPU's memory is full ({:.3f} of {:.2f} GB for arrays are in use, {:.1f} MB "
      "more are needed at once and the largest free piece has {:.1f} MB{}); use a "
      "smaller micro_batch_size, recomputation, sharding (optimizer, gradients or "
      "parameters), or more tensor- or pipeline-parallel ranks",
      gigabytes(arena_->used()), gigabytes(arena_->bytes()), static_cast<double>(wanted) * 1e-6,
      static_cast<double>(arena_->largest_gap()) * 1e-6,
      left >= wanted ? ", so free memory is in pieces" : ""));
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
  constexpr int64_t launches_per_mark = 32;
  if (settings_.collectives && ++launches_ % launches_per_mark == 0) mark_progress();
}

void Gpu::mark_progress() {
  has_progressed();  // takes back what is over
  if (spare_marks_.empty()) spare_marks_.push_back(make_event());
  libraries_.check(driver().record(spare_marks_.front(), stream_), "record an event");
  marks_.push_back(spare_marks_.front());
  spare_marks_.pop_front();
}

/// Whether a mark is over that was not before: the GPU works.
bool Gpu::has_progressed() {
  bool any = false;
  for (; !marks_.empty() && driver().query(marks_.front()) == 0; any = true) {
    spare_marks_.push_back(marks_.front());
    marks_.pop_front();
  }
  return any;
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
    finish(stream_);  // the ring has no readers left
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

void Gpu::fetch(void* host, const void* place, int64_t bytes) {
  for (int64_t begin = 0; begin < bytes; begin += fetch_bytes) {
    const auto count = static_cast<size_t>(std::min(fetch_bytes, bytes - begin));
    const DevicePointer from = const_cast<char*>(static_cast<const char*>(place)) + begin;
    libraries_.check(driver().to_host(fetched_, from, count, stream_), "copy from the GPU");
    finish(stream_);
    std::memcpy(static_cast<char*>(host) + begin, fetched_, count);
  }
}

void Gpu::finish(Stream stream) {
  using Clock = std::chrono::steady_clock;
  if (before_waiting_) before_waiting_();
  auto begin = Clock::now();  // of the silence: a long step is none
  for (;;) {
    const int result = driver().query_stream(stream);
    if (result == 0) return;
    if (result != not_ready) libraries_.check(result, "finish its work");
    if (has_progressed()) begin = Clock::now();
    const double waited = std::chrono::duration<double>(Clock::now() - begin).count();
    if (settings_.collectives && waited > settings_.timeout_seconds)
      throw CommError(
          fmt::format("a GPU has not finished its work for {:.3g} s (a rank of one of its groups "
                      "does not answer); see the last output of the other ranks, or allow a "
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
