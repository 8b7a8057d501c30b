// SPDX-License-Identifier: Apache-2.0
// One transformer layer as a tensor-parallel rank of eight computes it, alone on one GPU: its
// matrix products one by one, its attention, and the layer as a whole, forward and backward. In
// bf16.
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "trainer/comm/endpoint.h"
#include "trainer/comm/transport.h"
#include "trainer/cuda/device.h"
#include "trainer/memory_ledger.h"
#include "trainer/model/chunk.h"

namespace triplepoint::trainer {
namespace {

struct Options {
  std::string shape = "gpt3-175b", plugin, libraries;
  double seconds = 3;
};

spec::Model model_of(int64_t hidden, int64_t ffn, int64_t heads, int64_t groups, int64_t length) {
  spec::Model model;
  model.num_layers = 1;
  model.hidden_size = hidden;
  model.ffn_hidden_size = ffn;
  model.num_attention_heads = heads;
  model.num_query_groups = groups;
  model.kv_channels = 128;
  model.sequence_length = length;
  model.vocabulary_size = 1024;
  model.dropout = 0;
  model.biases = true;
  return model;
}

spec::Model llama_of(spec::Model model) {
  model.activation = spec::Activation::swiglu;
  model.normalization = spec::Normalization::rms_norm;
  model.position_embedding = spec::PositionEmbedding::rope;
  model.biases = false;
  return model;
}

/// An eighth of the layer's heads and hidden units, all of its trunk.
spec::Model share_of(const std::string& shape) {
  if (shape == "gpt3-175b") return model_of(12288, 49152 / 8, 96 / 8, 96 / 8, 2048);
  if (shape == "llama3-70b") return llama_of(model_of(8192, 28672 / 8, 64 / 8, 1, 8192));
  spec::Model tiny = llama_of(model_of(64, 64, 2, 1, 32));
  tiny.kv_channels = 16;
  return tiny;
}

spec::Job job_of(const std::string& shape) {
  spec::Job job;
  job.model = share_of(shape);
  job.cluster.num_nodes = job.cluster.gpus_per_node = 1;
  job.plan.micro_batch_size = job.plan.global_batch_size = 1;
  job.plan.precision = spec::Precision::bf16;
  return job;
}

/// Seconds of one call, of as many as fit into the time, waited for together.
double time_of(Math& math, double seconds, const std::function<void()>& act) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  act();  // chooses algorithms
  math.finish();
  const auto first = Clock::now();
  act();
  math.finish();
  const int64_t times = std::max<int64_t>(1, static_cast<int64_t>(seconds / since(first)));
  const auto begin = Clock::now();
  for (int64_t i = 0; i < times; ++i)
    act();
  math.finish();
  return since(begin) / static_cast<double>(times);
}

/// Numbers as they might be: what switches in a multiplier depends on them, and power with it.
void fill(Math& math, int64_t n, float* x, float size = 1) {
  std::vector<float> numbers(static_cast<size_t>(n));
  uint32_t state = 1;
  for (float& number : numbers) {
    state = state * 1664525 + 1013904223;
    number = size * (static_cast<float>(state >> 8U) / 8388608.0F - 1);
  }
  math.put(n, numbers.data(), x);
}

void say(const std::string& what, double seconds, double flops) {
  fmt::print("{:34} {:10.3f} ms {:9.1f} TFLOP/s\n", what, seconds * 1e3, flops / seconds * 1e-12);
}

/// y = x w^T and its two gradients; returns their time.
double measure_product(Math& math, const char* name, int64_t rows, int64_t out, int64_t in,
                       double seconds) {
  MathArray x(math, Storage::value, rows * in), w(math, Storage::value, out * in),
      y(math, Storage::value, rows * out), sums(math, Storage::exact, out * in);
  fill(math, rows * in, x.data());
  fill(math, out * in, w.data(), 0.02F);
  math.zero(out * in, sums.data());
  const Gemm forward{.m = rows,
                     .n = out,
                     .k = in,
                     .a = x.data(),
                     .a_stride = in,
                     .b = w.data(),
                     .b_stride = in,
                     .b_transposed = true,
                     .c = y.data(),
                     .c_stride = out};
  const Gemm input{.m = rows,
                   .n = in,
                   .k = out,
                   .a = y.data(),
                   .a_stride = out,
                   .b = w.data(),
                   .b_stride = in,
                   .c = x.data(),
                   .c_stride = in};
  const Gemm weight{.m = out,
                    .n = in,
                    .k = rows,
                    .a = y.data(),
                    .a_stride = out,
                    .a_transposed = true,
                    .b = x.data(),
                    .b_stride = in,
                    .c = sums.data(),
                    .c_stride = in,
                    .beta = 1};
  const double flops =
      2.0 * static_cast<double>(rows) * static_cast<double>(out) * static_cast<double>(in);
  double all = 0;
  const std::map<std::string, Gemm> products = {
      {"", forward}, {" input gradient", input}, {" weight gradient", weight}};
  for (const auto& [kind, product] : products) {
    const double time = time_of(math, seconds, [&math, g = product] { math.gemm(g); });
    say(fmt::format("{}{}", name, kind), time, flops);
    all += time;
  }
  return all;
}

double measure_products(Math& math, const spec::Model& model, double seconds) {
  const int64_t rows = model.sequence_length, d = model.kv_channels;
  const int64_t width = model.num_attention_heads * d, qkv = width + 2 * model.num_query_groups * d;
  const int64_t gates = model.activation == spec::Activation::swiglu ? 2 : 1;
  double all = 0;
  all += measure_product(math, "qkv", rows, qkv, model.hidden_size, seconds);
  all += measure_product(math, "projection", rows, model.hidden_size, width, seconds);
  all +=
      measure_product(math, "up", rows, gates * model.ffn_hidden_size, model.hidden_size, seconds);
  all += measure_product(math, "down", rows, model.hidden_size, model.ffn_hidden_size, seconds);
  return all;
}

double measure_attention(Math& math, const spec::Model& model, double seconds) {
  const Attention shape{.sequences = 1,
                        .length = model.sequence_length,
                        .heads = model.num_attention_heads,
                        .groups = model.num_query_groups,
                        .head_dim = model.kv_channels};
  const int64_t width = shape.heads * shape.head_dim;
  MathArray qkv(math, Storage::value, shape.length * shape.width()),
      out(math, Storage::value, shape.length * width),
      slope(math, Storage::value, shape.length * width),
      sums(math, Storage::exact, shape.length * shape.heads);
  fill(math, shape.length * shape.width(), qkv.data());
  fill(math, shape.length * width, slope.data());
  const double flops = 2.0 * static_cast<double>(shape.length) * static_cast<double>(shape.length) *
                       static_cast<double>(width);
  const double forward =
      time_of(math, seconds, [&] { math.attention(shape, qkv.data(), out.data(), sums.data()); });
  say("attention", forward, flops);
  const double backward = time_of(math, seconds, [&] {
    math.attention_backward(shape, qkv.data(), out.data(), slope.data(), sums.data());
  });
  say("attention backward", backward, 2.5 * flops);
  return forward + backward;
}

/// Parameters of the layer, all alike.
struct Values {
  Values(Math& math, Chunk& chunk) {
    for (Unit& unit : chunk.units())
      for (Parameter& parameter : unit.dense) {
        const int64_t n = parameter.count();
        MathArray& value = arrays.emplace_back(math, Storage::value, n);
        MathArray& gradient = arrays.emplace_back(math, Storage::exact, n);
        fill(math, n, value.data(), 0.02F);
        math.zero(n, gradient.data());
        parameter.value = {value.data(), static_cast<size_t>(n)};
        parameter.gradient = {gradient.data(), static_cast<size_t>(n)};
        weights += static_cast<double>(n);
      }
  }
  std::deque<MathArray> arrays;
  double weights = 0;
};

void measure_layer(Device& device, const spec::Job& job, double seconds) {
  Math& math = device.math();
  Endpoint endpoint(std::move(thread_transports(1)[0]));
  const auto alone = device.communicator(endpoint.communicator(spec::GroupKind::tensor, {0}));
  MemoryLedger ledger(math);
  Chunk chunk(job, {.count = workload::whole_model(job).count},
              {alone.get(), alone.get(), alone.get()}, math, ledger);
  const Values values(math, chunk);
  const int64_t size = job.model.sequence_length * job.model.hidden_size;
  MathArray x(math, Storage::value, size), y(math, Storage::value, size),
      slope(math, Storage::value, size), dx(math, Storage::value, size);
  fill(math, size, x.data());
  fill(math, size, slope.data(), 0.1F);
  const auto all = [size](MathArray& array) {
    return std::span<float>(array.data(), static_cast<size_t>(size));
  };
  const Tokens tokens{.microbatch = 0};
  const double rows = static_cast<double>(job.model.sequence_length);
  const double width = static_cast<double>(job.model.num_attention_heads * job.model.kv_channels);
  const double flops = 6.0 * rows * values.weights + 7.0 * rows * rows * width;
  const double both = time_of(math, seconds, [&] {
    chunk.forward(tokens, all(x), all(y));
    chunk.backward(tokens, all(slope), all(dx), 1);
  });
  say("layer, forward and backward", both, flops);
}

int run(const Options& options) {
  DeviceSettings settings;
  settings.rounding = Rounding::bf16;
  settings.libraries = options.libraries;
  auto device = open_device(options.plugin, settings);
  if (!device) {
    fmt::print(stderr, "gpu_layer: {}\n", device.error().what);
    return 1;
  }
  const spec::Job job = job_of(options.shape);
  fmt::print("{}: an eighth of a layer of {} on {}\n", options.shape, job.model.sequence_length,
             (*device)->text());
  const double products = measure_products((*device)->math(), job.model, options.seconds / 12);
  const double attention = measure_attention((*device)->math(), job.model, options.seconds / 4);
  fmt::print("{:34} {:10.3f} ms\n", "products and attention", (products + attention) * 1e3);
  measure_layer(**device, job, options.seconds);
  return 0;
}

}  // namespace
}  // namespace triplepoint::trainer

int main(int argc, char** argv) try {
  triplepoint::trainer::Options options;
  CLI::App app("A transformer layer of a tensor-parallel rank of eight, on one GPU", "gpu_layer");
  app.add_option("--shape", options.shape, "Of which model")
      ->check(CLI::IsMember({"gpt3-175b", "llama3-70b", "tiny"}));
  app.add_option("--seconds", options.seconds, "How long to measure each");
  app.add_option("--plugin", options.plugin, "libtriplepoint-train-cuda.so");
  app.add_option("--libraries", options.libraries, "Folder of libcuda, cuBLASLt");
  CLI11_PARSE(app, argc, argv);
  return triplepoint::trainer::run(options);
} catch (const std::exception& thrown) {
  std::fprintf(stderr, "gpu_layer: %s\n", thrown.what());
  return 1;
}
