// SPDX-License-Identifier: Apache-2.0
#include "trainer/cuda/plugin/gpu.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include "triplepoint/base/result.h"

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

/// One of the names a library has, newest first. Never closed: drivers do not survive that.
void* open_one(const std::string& folder, const std::vector<std::string>& names,
               const char* remedy) {
  std::string why;
  for (const std::string& name : names) {
    const std::string path = folder.empty() ? name : fmt::format("{}/{}", folder, name);
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    if (why.empty()) why = dlerror();
  }
  throw CudaError(fmt::format("{} was not found ({}); {}", names.front(), why, remedy));
}

template <class Field>
void find(void* library, const char* name, Field& field) {
  field = reinterpret_cast<Field>(dlsym(library, name));
  if (field == nullptr)
    throw CudaError(
        fmt::format("{} is not in the library that was found (it is older than this program "
                    "expects); install a newer driver and CUDA 12 or 13",
                    name));
}

}  // namespace

#define TPT_FIND(field, name, ...) find(library, #name, table.field);

Libraries open_libraries(const std::string& folder, bool nccl) {
  Libraries libraries;
  {
    void* library = open_one(folder, {"libcuda.so.1"}, "install NVIDIA's driver");
    Driver& table = libraries.driver;
    TPT_DRIVER_CALLS(TPT_FIND)
  }
  {
    void* library =
        open_one(folder, {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"},
                 "install cuBLAS of CUDA 12 or 13, or add its folder to LD_LIBRARY_PATH");
    BlasLibrary& table = libraries.blas;
    TPT_BLAS_CALLS(TPT_FIND)
  }
  if (!nccl) return libraries;
  void* library =
      open_one(folder, {"libnccl.so.2", "libnccl.so"}, "install NCCL, or train with one rank");
  NcclLibrary& table = libraries.nccl;
  TPT_NCCL_CALLS(TPT_FIND)
  return libraries;
}

#undef TPT_FIND

void Libraries::check(int result, const char* what) const {
  if (result == 0) return;
  const char* text = nullptr;
  driver.error_text(result, &text);
  throw CudaError(fmt::format("CUDA could not {} ({}, error {})", what,
                              text != nullptr ? text : "unknown", result));
}

void Libraries::check_blas(int status, const char* what) const {
  if (status == 0) return;
  throw CudaError(fmt::format("cuBLASLt could not {} ({})", what, blas.status_text(status)));
}

void Libraries::check_nccl(int result, const char* what) const {
  if (result == 0 || result == nccl_in_progress) return;
  throw CudaError(fmt::format("NCCL could not {} ({}); set NCCL_DEBUG=WARN for details", what,
                              nccl.error_text(result)));
}

namespace {

constexpr int64_t grain = 512;  // bytes: what vector loads and cuBLASLt like best

char* reserve(int64_t bytes) {
  void* window = mmap(nullptr, static_cast<size_t>(bytes), PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  TPT_EXPECT(window != MAP_FAILED);
  return static_cast<char*>(window);
}

}  // namespace

Arena::Arena(char* block, int64_t bytes)
    : block_(block), bytes_(bytes), exact_(reserve(bytes)), values_(reserve(2 * bytes)) {
  free_[0] = bytes / grain * grain;
}

Arena::~Arena() {
  munmap(exact_, static_cast<size_t>(bytes_));
  munmap(values_, static_cast<size_t>(2 * bytes_));
}

float* Arena::allocate(int64_t count, bool bf16) {
  const int64_t least = std::max<int64_t>(count, 1) * (bf16 ? 2 : 4);
  const int64_t bytes = (least + grain - 1) / grain * grain;
  const auto found = std::find_if(free_.begin(), free_.end(),
                                  [bytes](const auto& gap) { return gap.second >= bytes; });
  if (found == free_.end()) return nullptr;
  const auto [offset, size] = *found;
  free_.erase(found);
  if (size > bytes) free_[offset + bytes] = size - bytes;
  taken_[offset] = bytes;
  used_ += bytes;
  char* address = bf16 ? values_ + 2 * offset : exact_ + offset;
  return reinterpret_cast<float*>(address);
}

void Arena::release(const float* address) {
  const auto* at = reinterpret_cast<const char*>(address);
  const int64_t offset = in_values(at) ? (at - values_) / 2 : at - exact_;
  const auto found = taken_.find(offset);
  TPT_EXPECT(found != taken_.end());
  used_ -= found->second;
  auto gap = free_.emplace(offset, found->second).first;
  taken_.erase(found);
  const auto next = std::next(gap);
  if (next != free_.end() && gap->first + gap->second == next->first) {
    gap->second += next->second;
    free_.erase(next);
  }
  if (gap == free_.begin()) return;
  const auto before = std::prev(gap);
  if (before->first + before->second != gap->first) return;
  before->second += gap->second;
  free_.erase(gap);
}

bool Arena::in_values(const char* address) const {
  return address >= values_ && address < values_ + 2 * bytes_;
}

bool Arena::holds(const void* address) const {
  const auto* at = static_cast<const char*>(address);
  return in_values(at) || (at >= exact_ && at < exact_ + bytes_);
}

Array Arena::at(const float* address) const {
  if (address == nullptr) return {};
  TPT_EXPECT(holds(address));
  const auto* at = reinterpret_cast<const char*>(address);
  if (in_values(at)) return {block_ + (at - values_) / 2, 1};
  return {block_ + (at - exact_), 0};
}

namespace {

constexpr int64_t most_unasked = 49152;  // bytes of a block's memory
constexpr int64_t first_ring_bytes = int64_t{1} << 20;

}  // namespace

namespace {

constexpr int oldest_driver = 12000;  // 1000 major + 10 minor

std::string release_of(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

int driver_version(const Libraries& libraries) {
  int version = 0;
  libraries.check(libraries.driver.driver_version(&version), "tell its version");
  return version;
}

int visible_gpus(const Libraries& libraries) {
  if (const int version = driver_version(libraries); version < oldest_driver)
    throw CudaError(
        fmt::format("the driver knows CUDA {} and {} is needed; install a newer driver, or use "
                    "--device cpu",
                    release_of(version), release_of(oldest_driver)));
  libraries.check(libraries.driver.init(0), "start");
  int count = 0;
  libraries.check(libraries.driver.device_count(&count), "count the GPUs");
  if (count == 0) throw CudaError("no GPU is visible (see CUDA_VISIBLE_DEVICES); use --device cpu");
  return count;
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
  int device = 0;
  libraries.check(libraries.driver.device(&device, identity.ordinal), "open the GPU");
  GpuUuid uuid{};
  libraries.check(libraries.driver.device_uuid(&uuid, device), "tell its UUID");
  std::memcpy(identity.uuid.data(), uuid.bytes, sizeof uuid.bytes);
  return identity;
}

Gpu::Gpu(const DeviceSettings& settings, const Libraries& libraries)
    : libraries_(libraries), settings_(settings) {
  const auto check = [this](int result, const char* what) { libraries_.check(result, what); };
  const int count = visible_gpus(libraries);
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
  for (const auto* marks : {&marks_, &spare_marks_})
    for (const Event mark : *marks)
      driver().drop_event(mark);
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
    throw CudaError(fmt::format("the kernels could not be loaded ({}): {}",
                                text != nullptr ? text : "unknown error",
                                remedy_of_kernels(driver_version(libraries_))));
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
      fmt::format("the GPU's memory is full ({} of {:.1f} GB are in use, and {:.1f} MB more are "
                  "needed); use a smaller microbatch, more recomputation or more ranks",
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

void Gpu::finish(Stream stream) {
  using Clock = std::chrono::steady_clock;
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
