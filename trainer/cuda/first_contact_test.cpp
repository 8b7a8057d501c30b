// SPDX-License-Identifier: Apache-2.0
// What a new machine may do to the plug-in: libraries in unusual places or of another release,
// algorithms that do not work, memory and multiprocessors that are too small. On doubles.
#include <array>
#include <filesystem>
#include <thread>

#include <dlfcn.h>
#include <doctest/doctest.h>

#include "triplepoint/base/random.h"
#include "triplepoint/base/scratch_folder.h"

#include "tests/doubles/cuda/settings.h"
#include "trainer/comm/endpoint.h"
#include "trainer/comm/transport.h"
#include "trainer/cuda/device.h"

namespace triplepoint::trainer {
namespace {

/// The double's settings, as they were before when this is gone.
class GpuDouble {
 public:
  GpuDouble() {
    void* library = dlopen(TPT_FAKE_CUDA "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library != nullptr);
    settings_ = reinterpret_cast<cuda_double::SettingsEntry>(
        dlsym(library, cuda_double::settings_symbol))();
  }
  GpuDouble(const GpuDouble&) = delete;
  GpuDouble& operator=(const GpuDouble&) = delete;
  ~GpuDouble() {
    const cuda_double::Settings usual;
    settings_->driver_version = usual.driver_version.load();
    settings_->start_error = 0;
    settings_->shared_bytes = usual.shared_bytes.load();
    settings_->free_bytes = usual.free_bytes.load();
    settings_->cublas_runtime = usual.cublas_runtime.load();
    settings_->algorithms = usual.algorithms.load();
    settings_->broken_algorithms = 0;
  }
  cuda_double::Settings* operator->() const { return settings_; }

 private:
  cuda_double::Settings* settings_;
};

/// A device of the doubles, and what it remarks.
struct Opened {
  explicit Opened(Rounding rounding = Rounding::none, const std::string& folder = TPT_FAKE_CUDA) {
    DeviceSettings settings;
    settings.rounding = rounding;
    settings.libraries = folder;
    settings.remark = [this](const std::string& text) { remarks.push_back(text); };
    auto opened = open_device(TPT_CUDA_PLUGIN, settings);
    if (opened)
      device = *std::move(opened);
    else
      problem = opened.error().what;
  }
  Math& math() const { return device->math(); }

  std::vector<std::string> remarks;
  std::string problem;
  std::unique_ptr<Device> device;
};

void contains(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CHECK(text.find(part) != std::string::npos);
}

std::vector<float> noise(int64_t n, uint64_t stream) {
  std::vector<float> x;
  for (int64_t i = 0; i < n; ++i)
    x.push_back(static_cast<float>(random_normal({7, stream}, static_cast<uint64_t>(i))));
  return x;
}

/// Largest difference of C = alpha op(A) op(B) + beta C, made twice, from the processor's.
double product_error(Math& math, bool a_transposed, bool b_transposed) {
  const int64_t m = 6, n = 10, k = 7;
  const auto processor = make_cpu_math(Rounding::none);
  std::vector<float> a = noise(m * k, 1), b = noise(n * k, 2), c = noise(m * n, 3), there = c;
  MathArray a_there(math, a), b_there(math, b), c_there(math, c);
  Gemm g{.m = m, .n = n, .k = k, .alpha = 0.5F, .beta = 2};
  g.a_transposed = a_transposed, g.b_transposed = b_transposed;
  g.a_stride = a_transposed ? m : k, g.b_stride = b_transposed ? k : n, g.c_stride = n;
  for (int times = 0; times < 2; ++times) {
    g.a = a.data(), g.b = b.data(), g.c = c.data();
    processor->gemm(g);
    g.a = a_there.data(), g.b = b_there.data(), g.c = c_there.data();
    math.gemm(g);
  }
  math.fetch(m * n, c_there.data(), there.data());
  double worst = 0;
  for (size_t i = 0; i < c.size(); ++i)
    worst = std::max(worst, static_cast<double>(std::abs(c[i] - there[i])));
  return worst;
}

double worst_product(Math& math) {
  double worst = 0;
  for (const bool a : {false, true})
    for (const bool b : {false, true})
      worst = std::max(worst, product_error(math, a, b));
  return worst;
}

TEST_CASE("algorithms of cuBLASLt that do not work are passed over without a word") {
  const GpuDouble gpu;
  gpu->broken_algorithms = 2;  // of three
  const Opened opened;
  REQUIRE(opened.problem.empty());
  const int before = gpu->products;
  CHECK(worst_product(opened.math()) < 1e-5);
  CHECK(gpu->products - before == 8);
  CHECK(opened.remarks.empty());
}

TEST_CASE("where no algorithm works a plain kernel multiplies, and a sentence per shape says so") {
  for (const bool none_proposed : {false, true}) {
    const GpuDouble gpu;
    if (none_proposed) gpu->algorithms = 0;
    gpu->broken_algorithms = 3;
    const Opened opened;
    REQUIRE(opened.problem.empty());
    const int before = gpu->products;
    CHECK(worst_product(opened.math()) < 1e-5);
    CHECK(gpu->products == before);
    REQUIRE(opened.remarks.size() == 3);  // of four ways for operands to lie, each multiplied twice
    contains(opened.remarks[2], "More such shapes are not told");
    contains(opened.remarks[0], "no algorithm that works for 1 product(s) of 6 x 10 x 7");
    contains(opened.remarks[0], none_proposed ? "no algorithm" : "not supported");
  }
}

TEST_CASE("fp32 operands with a bf16 result, which cuBLASLt lacks, and empty sums are multiplied") {
  const Opened opened(Rounding::bf16);
  REQUIRE(opened.problem.empty());
  Math& math = opened.math();
  MathArray a(math, Storage::exact, 8), b(math, Storage::exact, 8), c(math, Storage::value, 4);
  const std::vector<float> ones(8, 1.0F);
  math.put(8, ones.data(), a.data());
  math.put(8, ones.data(), b.data());
  Gemm g{.m = 2, .n = 2, .k = 4};
  g.a = a.data(), g.b = b.data(), g.c = c.data();
  g.a_stride = 4, g.b_stride = 2, g.c_stride = 2;
  math.gemm(g);
  std::vector<float> there(4);
  math.fetch(4, c.data(), there.data());
  CHECK(there == std::vector<float>(4, 4.0F));
  CHECK(opened.remarks.size() == 1);
  g.k = 0, g.beta = 2;
  math.gemm(g);
  math.fetch(4, c.data(), there.data());
  CHECK(there == std::vector<float>(4, 8.0F));
}

TEST_CASE("cuBLAS in a Python package's folder is found below the folder that is named") {
  const ScratchFolder scratch;
  const auto link = [&](const std::string& folder, const std::string& name) {
    REQUIRE(make_folder(scratch.folder() / folder));
    std::filesystem::create_symlink(TPT_FAKE_CUDA "/libcuda.so.1",
                                    scratch.folder() / folder / name);
  };
  link("", "libcuda.so.1");
  const std::string folder = scratch.folder().string();
  contains(Opened(Rounding::none, folder).problem, "a cuBLASLt that the driver serves was not");
  link("cublas/lib", "libcublasLt.so.12");
  CHECK(Opened(Rounding::none, folder).problem.empty());
}

TEST_CASE("a cuBLASLt of a later CUDA than the driver's is told with both releases") {
  const GpuDouble gpu;
  gpu->driver_version = 12020;
  gpu->cublas_runtime = 12080;  // a later minor release is served
  CHECK(Opened().problem.empty());
  gpu->cublas_runtime = 13000;
  const std::string said = Opened().problem;
  contains(said, "it is of CUDA 13.0 and the driver knows CUDA 12.2");
  contains(said, "nvidia-cublas-cu12");
}

TEST_CASE("a driver that does not start is told with its most likely cause") {
  const GpuDouble gpu;
  gpu->start_error = 802;
  contains(Opened().problem, "nvidia-fabricmanager");
  gpu->start_error = 100;
  contains(Opened().problem, "CUDA_VISIBLE_DEVICES");
}

TEST_CASE("arrays take their block after libraries have taken their memory") {
  const GpuDouble gpu;
  const Opened opened;
  REQUIRE(opened.problem.empty());
  contains(opened.device->text(), "0.2 GB for arrays");
  gpu->free_bytes = int64_t{100} << 20;  // communicators were made meanwhile
  float* const small = opened.math().allocate(1, Storage::exact);
  contains(opened.device->text(), "0.1 GB for arrays");
  opened.math().release(small);
}

TEST_CASE("a GPU that others have filled is told with what is free and what to change") {
  const GpuDouble gpu;
  const Opened opened;
  REQUIRE(opened.problem.empty());
  float* const first = opened.math().allocate(int64_t{20} << 20U, Storage::exact);
  std::string said;
  try {
    opened.math().allocate(int64_t{50} << 20U, Storage::exact);
  } catch (const std::exception& full) {
    said = full.what();
  }
  contains(said, "0.084 of 0.24 GB for arrays are in use, 209.7 MB more are needed");
  contains(said, "micro_batch_size");
  opened.math().release(first);
  gpu->free_bytes = int64_t{1} << 20;
  const std::string refused = Opened().problem;
  contains(refused, "(out of memory, error 2)");
  contains(refused, "of the GPU's 0.27 GB are free");
}

TEST_CASE("a rank that does not join NCCL's group ends the others after the timeout") {
  auto transports = thread_transports(2);
  std::thread absent([&] {
    Endpoint endpoint(std::move(transports[1]), EndpointSettings{});
    const auto group = endpoint.communicator(spec::GroupKind::data, {0, 1});
    std::array<float, 128> id{};
    group->broadcast(id, 0).wait();  // takes the group's id, and fails
  });
  DeviceSettings settings;
  settings.libraries = TPT_FAKE_CUDA;
  settings.collectives = true;
  settings.timeout_seconds = 0.3;
  const auto device = open_device(TPT_CUDA_PLUGIN, settings);
  REQUIRE(device);
  Endpoint endpoint(std::move(transports[0]), EndpointSettings{});
  std::string said;
  try {
    (*device)->communicator(endpoint.communicator(spec::GroupKind::data, {0, 1}));
  } catch (const CommError& lost) {
    said = lost.what();
  }
  absent.join();
  contains(said, "NCCL could not join a group within 0.3 s (of ranks 0, 1 not all have come");
}

TEST_CASE("heads whose tiles do not fit a multiprocessor are refused with the sizes that do") {
  const GpuDouble gpu;
  const Attention large{.length = 33, .head_dim = 256}, fitting{.length = 33, .head_dim = 128};
  CHECK(Opened().device->check_attention(large));
  gpu->shared_bytes = 99 * 1024;  // compute capability 8.6 and 8.9
  const Opened exact, values(Rounding::bf16);
  CHECK(exact.device->check_attention(fitting));
  const Result<void> refused = exact.device->check_attention(large);
  REQUIRE_FALSE(refused);
  contains(refused.error().what, "heads of 256 channels in fp32 need 164 kB");
  contains(refused.error().what, "kv_channels 1 to 15");
  CHECK_FALSE(values.device->check_attention(large));
  CHECK(values.device->check_attention({.length = 32, .head_dim = 256}));  // by products
}

}  // namespace
}  // namespace triplepoint::trainer
