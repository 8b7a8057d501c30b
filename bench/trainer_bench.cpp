// SPDX-License-Identifier: Apache-2.0
// Four layers' forward and backward passes against the same matrix products alone: what the rest
// costs.
#include <deque>
#include <numeric>
#include <vector>

#include <benchmark/benchmark.h>
#include <cblas.h>

#include "trainer/comm/endpoint.h"
#include "trainer/comm/transport.h"
#include "trainer/math/math.h"
#include "trainer/memory_ledger.h"
#include "trainer/model/chunk.h"

namespace {

using namespace triplepoint;
using namespace triplepoint::trainer;

constexpr int64_t layers = 4;
constexpr workload::LayerCounts dense_layers{.of_kind = {layers}};

spec::Job llama(int64_t hidden, int64_t length, int64_t sequences) {
  spec::Job job;
  spec::Model& model = job.model;
  model.num_layers = layers;
  model.hidden_size = hidden;
  model.ffn_hidden_size = 8 * hidden / 3 / 64 * 64;
  model.num_attention_heads = hidden / 64 < 4 ? 4 : hidden / 64;
  model.num_query_groups = model.num_attention_heads / 2;
  model.kv_channels = hidden / model.num_attention_heads;
  model.sequence_length = length;
  model.vocabulary_size = 512;
  model.activation = spec::Activation::swiglu;
  model.normalization = spec::Normalization::rms_norm;
  model.position_embedding = spec::PositionEmbedding::rope;
  job.cluster.num_nodes = job.cluster.gpus_per_node = 1;
  job.plan.micro_batch_size = job.plan.global_batch_size = sequences;
  job.plan.precision = spec::Precision::fp32;
  return job;
}

/// Parameters of a chunk, all alike.
struct Values {
  explicit Values(Chunk& chunk) {
    for (Unit& unit : chunk.units())
      for (Parameter& parameter : unit.dense) {
        values.emplace_back(static_cast<size_t>(parameter.count()), 0.01F);
        gradients.emplace_back(static_cast<size_t>(parameter.count()), 0.0F);
        parameter.value = values.back();
        parameter.gradient = gradients.back();
      }
  }
  std::deque<std::vector<float>> values, gradients;
};

void layer_passes(benchmark::State& state) {
  const spec::Job job = llama(state.range(0), state.range(1), state.range(2));
  Endpoint endpoint(std::move(thread_transports(1)[0]));
  const auto alone = endpoint.communicator(spec::GroupKind::tensor, {0});
  const auto math = make_cpu_math(Rounding::none);
  MemoryLedger ledger;
  Chunk chunk(job, {.count = dense_layers}, {alone.get(), alone.get(), alone.get()}, *math, ledger);
  const Values values(chunk);
  const auto size = static_cast<size_t>(state.range(0) * state.range(1) * state.range(2));
  std::vector<float> x(size, 0.1F), y(size), dy(size, 0.1F), dx(size);
  std::iota(x.begin(), x.end(), 0.0F);
  const Tokens tokens{.microbatch = 0};
  for (auto _ : state) {
    chunk.forward(tokens, x, y);
    chunk.backward(tokens, dy, dx, 1);
  }
}

/// y = x w^T and its two gradients, nothing around them.
class Product {
 public:
  Product(int64_t rows, int64_t out, int64_t in)
      : rows_(static_cast<int>(rows)),
        out_(static_cast<int>(out)),
        in_(static_cast<int>(in)),
        x_(static_cast<size_t>(rows * in), 0.1F),
        w_(static_cast<size_t>(out * in), 0.1F),
        y_(static_cast<size_t>(rows * out), 0.1F) {}

  void run() {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows_, out_, in_, 1, x_.data(), in_,
                w_.data(), in_, 0, y_.data(), out_);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows_, in_, out_, 1, y_.data(), out_,
                w_.data(), in_, 0, x_.data(), in_);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, out_, in_, rows_, 1, y_.data(), out_,
                x_.data(), in_, 1, w_.data(), in_);
    // Numbers must stay ordinary: products of products overflow.
    y_[0] = x_[0] = w_[0] = 0.1F;
  }

 private:
  int rows_, out_, in_;
  std::vector<float> x_, w_, y_;
};

void products_alone(benchmark::State& state) {
  const spec::Job job = llama(state.range(0), state.range(1), state.range(2));
  const spec::Model& model = job.model;
  const auto math = make_cpu_math(Rounding::none);  // one thread
  const int64_t rows = state.range(1) * state.range(2), d = model.kv_channels;
  const int64_t heads = model.num_attention_heads, length = model.sequence_length;
  Product qkv(rows, (heads + 2 * model.num_query_groups) * d, model.hidden_size);
  Product projection(rows, model.hidden_size, heads * d);
  Product up(rows, 2 * model.ffn_hidden_size, model.hidden_size);
  Product down(rows, model.hidden_size, model.ffn_hidden_size);
  // Half of the causal square, three and a half products of two (flash computes scores again).
  Product scores(length, length, d);
  for (auto _ : state)
    for (int64_t layer = 0; layer < layers; ++layer) {
      for (Product* product : {&qkv, &projection, &up, &down})
        product->run();
      for (int64_t i = 0; i < state.range(2) * heads; ++i)
        scores.run();
      benchmark::ClobberMemory();
    }
}

/// A training step of the whole model, optimizer included.
void whole_step(benchmark::State& state) {
  spec::Job job = llama(state.range(0), state.range(1), state.range(2));
  job.model.vocabulary_size = 2048;
  Endpoint endpoint(std::move(thread_transports(1)[0]));
  const auto alone = endpoint.communicator(spec::GroupKind::tensor, {0});
  const auto math = make_cpu_math(Rounding::none);
  MemoryLedger ledger;
  Chunk chunk(job, {.count = dense_layers, .has_embedding = true, .has_head = true},
              {alone.get(), alone.get(), alone.get()}, *math, ledger);
  Values values(chunk);
  std::deque<std::vector<float>> first, second;
  for (const auto& value : values.values) {
    first.emplace_back(value.size(), 0.0F);
    second.emplace_back(value.size(), 0.0F);
  }
  const int64_t size = state.range(1) * state.range(2);
  std::vector<int32_t> words(static_cast<size_t>(size));
  for (size_t i = 0; i < words.size(); ++i)
    words[i] = static_cast<int32_t>(i * 7919 % 2048);
  const Tokens tokens{.microbatch = 0, .inputs = words, .targets = words};
  const AdamW adam{.rate = 1e-4F};
  for (auto _ : state) {
    for (auto& gradient : values.gradients)
      math->zero(static_cast<int64_t>(gradient.size()), gradient.data());
    chunk.forward(tokens, {}, {});
    chunk.backward(tokens, {}, {}, 1.0 / static_cast<double>(size));
    for (size_t i = 0; i < values.values.size(); ++i)
      math->adamw(adam, static_cast<int64_t>(values.values[i].size()), values.gradients[i].data(),
                  first[i].data(), second[i].data(), values.values[i].data(),
                  values.values[i].data());
    benchmark::DoNotOptimize(chunk.take_loss_sum());
  }
}

// hidden, sequence length, sequences
BENCHMARK(whole_step)->Args({128, 128, 4})->Unit(benchmark::kMillisecond);
BENCHMARK(layer_passes)->Args({128, 128, 4})->Args({512, 256, 4})->Unit(benchmark::kMillisecond);
BENCHMARK(products_alone)->Args({128, 128, 4})->Args({512, 256, 4})->Unit(benchmark::kMillisecond);

}  // namespace
