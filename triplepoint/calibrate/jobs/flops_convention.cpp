// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/jobs/flops_convention.h"

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

}  // namespace

std::optional<double> step_tflop_of_convention(std::string_view convention, const spec::Job& job) {
  const auto flop = flop_of_sequence(convention, job);
  if (!flop) return std::nullopt;
  return *flop * static_cast<double>(job.plan.global_batch_size) /
         static_cast<double>(job.world_size()) / 1e12;
}

}  // namespace triplepoint::calibrate
