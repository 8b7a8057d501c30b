// SPDX-License-Identifier: Apache-2.0
// Every operation of the GPU's Math beside the processor's, on doubles of the vendor's libraries:
// the plug-in and its kernels are what a GPU gets, what is below them is not.
#include <cmath>
#include <functional>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <doctest/doctest.h>

#include "triplepoint/base/random.h"

#include "tests/doubles/cuda/settings.h"
#include "trainer/comm/endpoint.h"
#include "trainer/comm/transport.h"
#include "trainer/cuda/device.h"

namespace triplepoint::trainer {
namespace {

using Floats = std::vector<float>;

Floats noise(int64_t n, uint64_t stream) {
  Floats x;
  for (int64_t i = 0; i < n; ++i)
    x.push_back(static_cast<float>(random_normal({11, stream}, static_cast<uint64_t>(i))));
  return x;
}

std::unique_ptr<Device> open_double(Rounding rounding) {
  DeviceSettings settings;
  settings.rounding = rounding;
  settings.libraries = TPT_FAKE_CUDA;
  auto device = open_device(TPT_CUDA_PLUGIN, settings);
  if (!device) FAIL(device.error().what);
  return *std::move(device);
}

/// Runs the same operations on a processor and on a GPU, and compares what they leave.
class CpuAndGpu {
 public:
  explicit CpuAndGpu(Rounding rounding)
      : device_(open_double(rounding)),
        processor_(make_cpu_math(rounding)),
        tolerance_(rounding == Rounding::bf16 ? 2e-2 : 2e-5) {}

  /// An array of either side: some noise, or values given.
  struct ArrayPair {
    Floats host;
    float* device = nullptr;
    int64_t n() const { return static_cast<int64_t>(host.size()); }
  };
  ArrayPair& array(Storage storage, Floats numbers) {
    auto& twin = *twins_.emplace_back(std::make_unique<ArrayPair>());
    twin.host = std::move(numbers);
    if (storage == Storage::value) processor_->round(twin.n(), twin.host.data());
    twin.device = device_->math().allocate(twin.n(), storage);
    device_->math().put(twin.n(), twin.host.data(), twin.device);
    return twin;
  }
  ArrayPair& values(int64_t n) { return array(Storage::value, noise(n, ++stream_)); }
  ArrayPair& exact(int64_t n) { return array(Storage::exact, noise(n, ++stream_)); }

  /// `act` gets a Math and, for each array, its address there.
  using Place = std::function<float*(ArrayPair&)>;
  void play(const std::function<void(Math&, const Place&)>& act) {
    act(*processor_, [](ArrayPair& twin) { return twin.host.data(); });
    act(device_->math(), [](ArrayPair& twin) { return twin.device; });
    for (const auto& twin : twins_)
      compare(*twin);
  }

 private:
  void compare(ArrayPair& twin) {
    Floats there(twin.host.size());
    device_->math().fetch(twin.n(), twin.device, there.data());
    double worst = 0;
    for (size_t i = 0; i < there.size(); ++i)
      worst = std::max(worst, std::abs(static_cast<double>(there[i] - twin.host[i])) /
                                  (1 + std::abs(static_cast<double>(twin.host[i]))));
    CHECK(worst < tolerance_);
    // The next operation begins with the same numbers again.
    twin.host = there;
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Math> processor_;
  double tolerance_;
  uint64_t stream_ = 0;
  std::vector<std::unique_ptr<ArrayPair>> twins_;
};

void both_precisions(const std::function<void(CpuAndGpu&)>& act) {
  for (const Rounding rounding : {Rounding::none, Rounding::bf16}) {
    CAPTURE(static_cast<int>(rounding));
    CpuAndGpu both(rounding);
    act(both);
  }
}

/// Attention forward and backward, for one kind of heads.
void check_attention(CpuAndGpu& both, const Attention& shape) {
  const int64_t tokens = shape.sequences * shape.length, width = shape.heads * shape.head_dim;
  auto& qkv = both.values(tokens * shape.width());
  auto& out = both.values(tokens * width);
  auto& slope = both.values(tokens * width);
  auto& sums = both.exact(tokens * shape.heads);
  both.play([&](Math& math, const CpuAndGpu::Place& at) {
    math.attention(shape, at(qkv), at(out), at(sums));
  });
  both.play([&](Math& math, const CpuAndGpu::Place& at) {
    math.attention_backward(shape, at(qkv), at(out), at(slope), at(sums));
  });
}

TEST_CASE("a GPU multiplies as the processor does, whichever way matrices lie") {
  both_precisions([](CpuAndGpu& both) {
    const int64_t m = 9, n = 14, k = 11;
    auto& a = both.values(m * k);
    auto& b = both.values(n * k);
    auto& c = both.values(m * n);
    auto& sums = both.exact(m * n);
    auto& logits = both.exact(m * k);
    for (int way = 0; way < 4; ++way) {
      Gemm g{.m = m, .n = n, .k = k};
      g.a_transposed = way % 2 == 1;
      g.b_transposed = way / 2 == 1;
      g.a_stride = g.a_transposed ? m : k;
      g.b_stride = g.b_transposed ? k : n;
      g.c_stride = n;
      both.play([&](Math& math, const CpuAndGpu::Place& at) {
        Gemm here = g;
        here.a = at(a), here.b = at(b), here.c = at(c);
        math.gemm(here);
        here.c = at(sums), here.beta = 1, here.alpha = 0.5F;
        math.gemm(here);
        here.a = at(logits);  // fp32 times what is kept in the precision of values
        math.gemm(here);
      });
    }
  });
}

TEST_CASE("a GPU normalizes as the processor does, forward and backward") {
  both_precisions([](CpuAndGpu& both) {
    const Norm norm{.rows = 5, .width = 300};
    auto& x = both.values(norm.rows * norm.width);
    auto& gain = both.values(norm.width);
    auto& bias = both.values(norm.width);
    auto& y = both.values(norm.rows * norm.width);
    auto& dx = both.values(norm.rows * norm.width);
    auto& statistics = both.exact(2 * norm.rows);
    auto& gain_gradient = both.exact(norm.width);
    auto& bias_gradient = both.exact(norm.width);
    for (const bool centered : {true, false}) {
      Norm one = norm;
      one.centered = centered;
      both.play([&](Math& math, const CpuAndGpu::Place& at) {
        math.norm(one, at(x), at(gain), centered ? at(bias) : nullptr, at(y), at(statistics));
      });
      both.play([&](Math& math, const CpuAndGpu::Place& at) {
        math.norm_backward(one, at(x), at(gain), at(statistics), at(y), at(dx), at(gain_gradient),
                           centered ? at(bias_gradient) : nullptr);
      });
    }
  });
}

TEST_CASE("a GPU attends as the processor does, with groups, dropout and any length") {
  both_precisions([](CpuAndGpu& both) {
    Attention shape{.sequences = 2, .length = 37, .heads = 4, .groups = 2, .head_dim = 8};
    shape.all_heads = 8;
    shape.first_head = 4;
    check_attention(both, shape);
    shape.dropout = {.site = 5, .first_row = 3, .probability = 0.3F};
    check_attention(both, shape);
    check_attention(both, {.sequences = 1, .length = 70, .heads = 1, .groups = 1, .head_dim = 64});
    // In bf16 these go by products of blocks, the last one with several blocks and a rest.
    check_attention(both, {.sequences = 2, .length = 24, .heads = 3, .groups = 3, .head_dim = 8});
    check_attention(both, {.sequences = 1, .length = 40, .heads = 4, .groups = 1, .head_dim = 16});
    check_attention(both, {.sequences = 1, .length = 1048, .heads = 2, .groups = 1, .head_dim = 8});
    check_attention(both, {.sequences = 1, .length = 16, .heads = 2, .groups = 1, .head_dim = 160});
  });
}

TEST_CASE("a GPU keeps scores as the processor does where attention is not fused") {
  both_precisions([](CpuAndGpu& both) {
    const int64_t length = 19;
    auto& scores = both.values(2 * length * length);
    auto& gradient = both.values(2 * length * length);
    both.play([&](Math& math, const CpuAndGpu::Place& at) {
      math.causal_softmax(2, length, 0.5F, at(scores));
    });
    both.play([&](Math& math, const CpuAndGpu::Place& at) {
      math.softmax_backward(2, length, 0.5F, at(scores), at(gradient));
    });
  });
}

TEST_CASE("a GPU bends, adds and drops as the processor does") {
  both_precisions([](CpuAndGpu& both) {
    const int64_t rows = 6, width = 21;
    auto& z = both.values(rows * 2 * width);
    auto& y = both.values(rows * width);
    auto& x = both.values(rows * width);
    auto& bias = both.values(2 * width);
    auto& sums = both.exact(width);
    const Dropout dropout{.site = 9, .first_row = 40, .probability = 0.4F};
    for (const Nonlinearity kind :
         {Nonlinearity::gelu, Nonlinearity::swiglu, Nonlinearity::squared_relu})
      for (const bool biased : {true, false}) {
        both.play([&](Math& math, const CpuAndGpu::Place& at) {
          math.activation(kind, rows, width, at(z), biased ? at(bias) : nullptr, at(y));
        });
        both.play([&](Math& math, const CpuAndGpu::Place& at) {
          math.activation_backward(kind, rows, width, at(z), biased ? at(bias) : nullptr, at(y));
        });
      }
    both.play([&](Math& math, const CpuAndGpu::Place& at) {
      math.add_bias(rows, width, width, at(bias), at(x));
      math.residual(rows, width, dropout, at(x), at(y), at(y));
      math.dropout(rows, width, dropout, at(y), at(x));
      math.add(rows * width, at(y), at(x));
      math.scale(rows * width, 0.5F, at(x));
      math.add_column_sums(rows, width, width, at(x), at(sums));
      math.copy_matrix(rows, width, at(y), width, at(z), 2 * width);
      math.copy(rows * width, at(x), at(y));
      math.zero(width, at(x));
    });
  });
}

TEST_CASE("a GPU turns pairs as the processor does") {
  both_precisions([](CpuAndGpu& both) {
    Rotary shape{.tokens = 12, .length = 6, .heads = 3, .head_dim = 8, .stride = 40};
    auto& x = both.values(shape.tokens * shape.stride);
    auto& table = both.exact(shape.length * shape.head_dim);
    for (const bool backward : {false, true})
      both.play([&](Math& math, const CpuAndGpu::Place& at) {
        Rotary here = shape;
        here.table = at(table);
        here.backward = backward;
        math.rotary(here, at(x));
      });
  });
}

TEST_CASE("a GPU looks words up and judges them as the processor does") {
  both_precisions([](CpuAndGpu& both) {
    const int64_t tokens = 7, width = 10;
    const std::vector<int32_t> words = {3, 9, 3, 5, 14, 4, 3}, targets = {4, 11, 7, 3, 9, 2, 12};
    auto& table = both.values(8 * width);
    auto& found = both.values(tokens * width);
    auto& gradient = both.exact(8 * width);
    both.play([&](Math& math, const CpuAndGpu::Place& at) {
      math.lookup(tokens, width, words.data(), 3, 8, at(table), at(found));
      math.add_lookup_gradient(tokens, width, words.data(), 3, 8, at(found), at(gradient));
    });
    const LogitShape shape{.rows = tokens, .width = 12, .valid = 9, .first = 3};
    auto& logits = both.exact(tokens * shape.width);
    auto& maximum = both.exact(tokens);
    auto& target = both.exact(tokens);
    auto& sum = both.exact(tokens);
    std::vector<double> losses;
    both.play([&](Math& math, const CpuAndGpu::Place& at) {
      math.row_maximum(shape, at(logits), at(maximum));
      math.loss_sums(shape, targets.data(), at(maximum), at(logits), at(target), at(sum));
      math.add_losses(tokens, at(sum), at(target));
      math.add_losses(tokens, at(sum), at(target));
      losses.push_back(math.take_losses());
      losses.push_back(math.take_losses());
      math.loss_backward(shape, targets.data(), at(sum), 0.25F, at(logits));
    });
    CHECK(losses[0] == doctest::Approx(losses[2]).epsilon(1e-6));
    CHECK(losses[1] == 0);
    CHECK(losses[3] == 0);
  });
}

TEST_CASE("a GPU routes rows as the processor does") {
  both_precisions([](CpuAndGpu& both) {
    const int64_t rows = 5, experts = 6, width = 9;
    for (const int64_t k : {int64_t{1}, int64_t{2}}) {
      auto& scores = both.exact(rows * experts);
      auto& weights = both.exact(rows * k);
      auto& slope = both.exact(rows * k);
      auto& gradient = both.exact(rows * experts);
      auto& x = both.values(rows * k * width);
      auto& y = both.values(rows * width);
      std::vector<std::vector<int32_t>> chosen;
      std::vector<int32_t> place, row_of;
      for (int32_t i = 0; i < rows * k; ++i) {
        place.push_back(i == 3 ? -1 : static_cast<int32_t>(rows * k) - 1 - i);
        row_of.push_back(i == 2 ? -1 : (i * 3) % static_cast<int32_t>(rows));
      }
      both.play([&](Math& math, const CpuAndGpu::Place& at) {
        auto& here = chosen.emplace_back(rows * k);
        math.top_k(rows, experts, k, at(scores), here.data(), at(weights));
        math.top_k_backward(rows, experts, k, at(scores), here.data(), at(weights), at(slope),
                            at(gradient));
        math.gather_rows(rows * k, width, row_of.data(), at(y), at(x));
        math.combine_rows(rows, width, k, place.data(), at(weights), at(x), at(y));
      });
      CHECK(chosen[0] == chosen[1]);
      both.play([&](Math& math, const CpuAndGpu::Place& at) {
        math.combine_backward(rows, width, k, place.data(), at(weights), at(y), at(x), at(slope));
      });
      both.play([&](Math& math, const CpuAndGpu::Place& at) {
        math.scatter_rows(rows * k, width, row_of.data(), at(x), at(y));
      });
    }
  });
}

TEST_CASE("a GPU steps and measures as the processor does") {
  both_precisions([](CpuAndGpu& both) {
    const int64_t n = 1000;
    auto& gradient = both.exact(n);
    auto& first = both.exact(n);
    Floats squares = noise(n, 77);
    for (float& x : squares)
      x *= x;
    auto& second = both.array(Storage::exact, squares);
    auto& master = both.exact(n);
    auto& value = both.values(n);
    AdamW step;
    step.rate = 0.01F, step.decay = 0.1F, step.correction1 = 0.1F, step.correction2 = 0.05F;
    step.gradient_scale = 0.7F;
    std::vector<double> sums;
    both.play([&](Math& math, const CpuAndGpu::Place& at) {
      math.adamw(step, n, at(gradient), at(first), at(second), at(master), at(value));
      sums.push_back(math.sum_of_squares(n, at(gradient)));
    });
    CHECK(sums[0] == doctest::Approx(sums[1]).epsilon(1e-9));
    both.play([&](Math& math, const CpuAndGpu::Place& at) {
      math.adamw(step, n, at(gradient), at(first), at(second), at(master), at(master));
    });
  });
}

TEST_CASE("arrays of a GPU come back, and a full one says so") {
  const auto device = open_double(Rounding::none);
  Math& math = device->math();
  const int64_t half = int64_t{30} << 20U;  // of 256 MiB less a tenth
  float* first = math.allocate(half, Storage::exact);
  CHECK_THROWS_WITH_AS(math.allocate(half, Storage::exact), doctest::Contains("memory is full"),
                       std::runtime_error);
  math.release(first);
  float* again = math.allocate(half, Storage::exact);
  CHECK(again == first);
  math.release(again);
}

/// A rank's GPU and a group of two, over the threads' transport.
struct Member {
  Member(std::unique_ptr<Transport> transport, double timeout)
      : endpoint(std::move(transport), EndpointSettings{}) {
    DeviceSettings settings;
    settings.libraries = TPT_FAKE_CUDA;
    settings.collectives = true;
    settings.timeout_seconds = timeout;
    auto opened = open_device(TPT_CUDA_PLUGIN, settings);
    if (!opened) throw std::runtime_error(opened.error().what);
    device = *std::move(opened);
    group = device->communicator(endpoint.communicator(spec::GroupKind::data, {0, 1}));
  }
  Endpoint endpoint;
  std::unique_ptr<Device> device;
  std::unique_ptr<Communicator> group;
};

TEST_CASE("a GPU that waits for a rank which does not come ends with a sentence") {
  auto transports = thread_transports(2);
  std::string said;
  std::thread late([&] { Member(std::move(transports[1]), 5); });  // joins, and goes
  {
    Member waiting(std::move(transports[0]), 0.3);
    Math& math = waiting.device->math();
    MathArray numbers(math, std::vector<float>(100, 1.0F));
    try {
      waiting.group->all_reduce({numbers.data(), 100}).wait();
      math.finish();
    } catch (const CommError& lost) {
      said = lost.what();
    }
    waiting.group.reset();  // before the arrays that it moves
  }
  late.join();
  CHECK(said.find("a GPU has not finished its work for 0.3") == 0);
}

TEST_CASE("a GPU that works for longer than the timeout is waited for") {
  void* library = dlopen(TPT_FAKE_CUDA "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  cuda_double::Settings& gpus =
      *reinterpret_cast<cuda_double::SettingsEntry>(dlsym(library, cuda_double::settings_symbol))();
  DeviceSettings settings;
  settings.libraries = TPT_FAKE_CUDA;
  settings.collectives = true;
  settings.timeout_seconds = 1;
  const auto device = open_device(TPT_CUDA_PLUGIN, settings);
  REQUIRE(device);
  Math& math = (*device)->math();
  MathArray one(math, std::vector<float>(4, 1.0F));
  MathArray sum(math, std::vector<float>(4, 0.0F));
  gpus.launch_us = 2000;
  for (int i = 0; i < 1000; ++i)
    math.add(4, one.data(), sum.data());
  CHECK_NOTHROW(math.finish());  // 2 s of work
  gpus.launch_us = 0;
  std::vector<float> sums(4);
  math.fetch(4, sum.data(), sums.data());
  CHECK(sums[0] == 1000);
}

TEST_CASE("bytes of a wire are rounded where it is narrower than the array") {
  auto transports = thread_transports(2);
  std::vector<std::vector<float>> sums(2, std::vector<float>(5));
  std::vector<double> payload(2);
  std::vector<std::thread> ranks;
  for (size_t rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      Member member(std::move(transports[rank]), 20);
      Math& math = member.device->math();
      MathArray numbers(math, {1.0F + 1.0F / 512, 2, 3, 4, 5});
      member.group->all_reduce({numbers.data(), 5}, Reduction::sum, Wire::bf16).wait();
      math.fetch(5, numbers.data(), sums[rank].data());
      payload[rank] = member.group->traffic(spec::Collective::all_reduce).payload;
    });
  for (std::thread& rank : ranks)
    rank.join();
  CHECK(sums[0] == std::vector<float>{2, 4, 6, 8, 10});
  CHECK(sums[0] == sums[1]);
  CHECK(payload[0] == 10);
}

TEST_CASE("a plug-in or library that is not there is a sentence") {
  const auto no_plugin = open_device("/nowhere/libtriplepoint-train-cuda.so", {});
  REQUIRE(!no_plugin);
  CHECK(no_plugin.error().what.find("GPU plug-in was not found") != std::string::npos);
  DeviceSettings settings;
  settings.libraries = "/nowhere";
  const auto no_driver = open_device(TPT_CUDA_PLUGIN, settings);
  REQUIRE(!no_driver);
  CHECK(no_driver.error().what.find("install NVIDIA's driver") != std::string::npos);
}

}  // namespace
}  // namespace triplepoint::trainer
