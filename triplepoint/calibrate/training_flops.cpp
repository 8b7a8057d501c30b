// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string_view>

#include "triplepoint/calibrate/training_row.h"
#include "triplepoint/workload/attention.h"
#include "triplepoint/workload/model_flops.h"

namespace triplepoint::calibrate {
namespace {

/// What the formulas are written in, one sequence at a time.
struct Shape {
  double layers, hidden, heads, query_groups, ffn, vocabulary, length, parameters, active;
};

Shape shape_of(const spec::Model& model) {
  const spec::ParameterCount parameters = spec::count_parameters(model);
  return {.layers = static_cast<double>(model.num_layers),
          .hidden = static_cast<double>(model.hidden_size),
          .heads = static_cast<double>(model.num_attention_heads),
          .query_groups = static_cast<double>(model.num_query_groups),
          .ffn = static_cast<double>(model.ffn_hidden_size),
          .vocabulary = static_cast<double>(model.vocabulary_size),
          .length = static_cast<double>(model.sequence_length),
          .parameters = parameters.total(),
          .active = parameters.active()};
}

/// 72 s l h^2 (1 + s/6h + V/12lh), the whole square of attention.
double classic(const Shape& m) {
  return 72 * m.length * m.layers * m.hidden * m.hidden *
         (1 + m.length / (6 * m.hidden) + m.vocabulary / (12 * m.layers * m.hidden));
}

/// 96 s l h^2 (1 + s/6h + V/16lh): the forward pass twice.
double with_recompute(const Shape& m) {
  return 96 * m.length * m.layers * m.hidden * m.hidden *
         (1 + m.length / (6 * m.hidden) + m.vocabulary / (16 * m.layers * m.hidden));
}

double of_dgxc(const Shape& m, spec::Activation activation) {
  const double h2 = m.hidden * m.hidden;
  if (activation != spec::Activation::swiglu)
    return m.length * (24 * m.layers * h2 + 12 * m.layers * m.hidden * m.length +
                       48 * m.layers * h2 + 6 * m.vocabulary * m.hidden);
  return m.length * (12 * m.layers * h2 * (1 + m.query_groups / m.heads + m.length / m.hidden) +
                     18 * m.layers * m.ffn * m.hidden + 6 * m.vocabulary * m.hidden);
}

/// 6 N s + 12 l h s^2: PaLM's model FLOPs.
double of_palm(const Shape& m) {
  return 6 * m.active * m.length + 12 * m.layers * m.hidden * m.length * m.length;
}

std::optional<double> flop_of_sequence(std::string_view conv, const spec::Job& job) {
  const Shape m = shape_of(job.model);
  if (conv == "SC21_HW") return with_recompute(m);
  if (conv == "BLOOM_OLD") return 8 * m.parameters * m.length;
  if (conv == "SEQSEL") return classic(m);
  if (conv == "DGXC") return of_dgxc(m, job.model.activation);
  if (conv == "MPT" || conv == "TT" || conv == "PALM_MFU" || conv == "LLAMA3") return of_palm(m);
  if (conv == "N6") return 6 * m.active * m.length;
  if (conv == "MCORE_MODEL" || conv == "NEMO_MODEL")
    return workload::count_step_flops(job).model / unit::FLOP /
           static_cast<double>(job.plan.global_batch_size);
  return std::nullopt;
}

/// Of a layer's attention and one token, in all passes: what a causal kernel does.
double attention_flop(const spec::Model& model, spec::LayerKind kind) {
  if (!spec::has_attention(kind)) return 0;
  const int64_t length = model.sequence_length;
  const int64_t window = spec::is_windowed(kind) ? model.sliding_window->size : length;
  return 3 * 4 * workload::mean_keys(length, window) *
         static_cast<double>(model.num_attention_heads * workload::core_head_dim(model));
}

/// Model FLOPs of a token as Megatron counts them.
double megatron_flop_of_token(const spec::Job& job) {
  double flop = workload::count_step_flops(job).model / unit::FLOP /
                static_cast<double>(workload::tokens_per_step(job));
  for (int64_t layer = 0; layer < job.model.num_layers; ++layer)
    flop -= attention_flop(job.model, spec::kind_of_layer(job.model, layer));
  for (const spec::LayerKind kind : spec::kinds_of_prediction(job.model))
    flop -= static_cast<double>(job.model.prediction_depths()) * attention_flop(job.model, kind);
  return flop;
}

}  // namespace

std::optional<int64_t> printed_prediction_depths(const TrainingRow& row, const spec::Job& job) {
  constexpr double tolerance = 0.02;
  constexpr int64_t most_depths = 2;
  const bool says = row.tflops_per_gpu && row.tokens_per_s_per_gpu && *row.tokens_per_s_per_gpu > 0;
  if (!says || !job.model.multi_token_prediction) return std::nullopt;
  const double printed = *row.tflops_per_gpu * 1e12 / *row.tokens_per_s_per_gpu;
  std::optional<int64_t> best;
  double nearest = tolerance;
  for (int64_t depths = 0; depths <= most_depths; ++depths) {
    spec::Job tried = job;
    tried.plan = {};
    tried.model.multi_token_prediction->depths = depths;
    const double off = std::abs(printed / megatron_flop_of_token(tried) - 1);
    if (off < nearest) best = depths, nearest = off;
  }
  return best;
}

std::optional<double> step_tflop_of_convention(const TrainingRow& row, const spec::Job& job) {
  const auto flop = flop_of_sequence(row.conv, job);
  if (!flop) return std::nullopt;
  return *flop * static_cast<double>(job.plan.global_batch_size) /
         static_cast<double>(job.world_size()) / 1e12;
}

}  // namespace triplepoint::calibrate
