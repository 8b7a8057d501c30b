// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "triplepoint/spec/cluster.h"
#include "triplepoint/spec/job.h"
#include "triplepoint/spec/model.h"
#include "triplepoint/spec/op.h"
#include "triplepoint/spec/plan.h"
#include "triplepoint/spec/score.h"

namespace triplepoint::spec {

/// Where a number comes from. Shown beside it in reports.
enum class NumberKind { datasheet, measured, fitted, assumed };

/// How an enum is written in TOML, on the command line and in tables: one word per enumerator, in
/// the enum's order.
template <class E>
struct EnumNames;

template <std::size_t N>
constexpr std::array<std::string_view, N> words(const char* const (&list)[N]) {
  std::array<std::string_view, N> result;
  for (std::size_t i = 0; i < N; ++i)
    result[i] = list[i];
  return result;
}

template <>
struct EnumNames<NumberKind> {
  static constexpr auto names = words({"datasheet", "measured", "fitted", "assumed"});
};
template <>
struct EnumNames<Precision> {
  static constexpr auto names = words({"bf16", "fp16", "fp8", "fp32", "mxfp8", "nvfp4"});
};
template <>
struct EnumNames<ScoreMetric> {
  static constexpr auto names =
      words({"tokens_per_second_per_gpu", "joules_per_token", "power_peak_w", "temperature_peak_c",
             "throttled_share", "thermal_spread_k", "step_time_variation", "step_time_drift"});
};
template <>
struct EnumNames<OpClass> {
  static constexpr auto names =
      words({"gemm", "grouped_gemm", "attention", "norm", "elementwise", "router", "embedding",
             "loss", "optimizer", "communication"});
};
template <>
struct EnumNames<Collective> {
  static constexpr auto names =
      words({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv"});
};
template <>
struct EnumNames<GroupKind> {
  static constexpr auto names =
      words({"tensor", "context", "expert", "expert_tensor", "data", "expert_data", "pipeline",
             "model", "embedding", "shard", "replica"});
};
template <>
struct EnumNames<Overlap> {
  static constexpr auto names =
      words({"none", "tensor", "prefetch", "gradient", "parameter", "copy"});
};
template <>
struct EnumNames<Activation> {
  static constexpr auto names = words({"gelu", "swiglu", "squared_relu"});
};
template <>
struct EnumNames<Normalization> {
  static constexpr auto names = words({"layer_norm", "rms_norm"});
};
template <>
struct EnumNames<PositionEmbedding> {
  static constexpr auto names = words({"learned", "rope", "none"});
};
template <>
struct EnumNames<ScaleUpKind> {
  static constexpr auto names = words({"nvswitch", "mesh", "pcie"});
};
template <>
struct EnumNames<FabricKind> {
  static constexpr auto names = words({"fat_tree", "rail_optimized", "dragonfly"});
};
template <>
struct EnumNames<Cooling> {
  static constexpr auto names = words({"air", "liquid", "immersion"});
};
template <>
struct EnumNames<Sharding> {
  static constexpr auto names = words({"none", "optimizer", "gradients", "parameters"});
};
template <>
struct EnumNames<Recompute> {
  static constexpr auto names = words({"none", "selective", "full"});
};
template <>
struct EnumNames<RecomputeModule> {
  static constexpr auto names = words({"core_attn", "mla_up_proj", "layernorm", "moe_act", "mlp",
                                       "moe", "shared_experts", "alternate_gemms"});
};
template <>
struct EnumNames<Schedule> {
  static constexpr auto names = words({"gpipe", "one_f_one_b", "interleaved", "zero_bubble"});
};
template <>
struct EnumNames<RankOrder> {
  static constexpr auto names = words({"tp-cp-ep-dp-pp", "tp-pp-dp"});
};
template <>
struct EnumNames<RecordLayout> {
  static constexpr auto names = words({"padded", "longest", "packed"});
};
template <>
struct EnumNames<ContextExchange> {
  static constexpr auto names = words({"ring", "all_gather"});
};
template <>
struct EnumNames<AttentionKernels> {
  static constexpr auto names = words({"unfused", "flash_1", "flash_2", "native"});
};
template <>
struct EnumNames<LossKernels> {
  static constexpr auto names =
      words({"fused", "megatron_fused", "megatron", "floats", "op_by_op", "none"});
};
template <>
struct EnumNames<ShardedTensors> {
  static constexpr auto names = words({"in_place", "flat", "per_parameter"});
};
template <>
struct EnumNames<ContextAttention> {
  static constexpr auto names = words({"overlapped", "merged_blocks"});
};
template <>
struct EnumNames<FaultKind> {
  static constexpr auto names =
      words({"power", "fan", "inlet", "heat_path", "link", "host", "node_lost"});
};
template <>
struct EnumNames<Task> {
  static constexpr auto names = words({"pretrain", "lora", "prefill", "decode"});
};
template <>
struct EnumNames<Diagnosis::Severity> {
  static constexpr auto names = words({"error", "warning"});
};
template <>
struct EnumNames<DiagnosisCode> {
  static constexpr auto names =
      words({"layers_not_divisible", "world_not_divisible", "batch_not_divisible",
             "experts_not_divisible", "heads_not_divisible", "head_dimension",
             "tensor_overlap_without_sequence_parallel", "node_count_mismatch", "inert_option",
             "unsupported", "inconsistent"});
};

template <class E>
concept NamedEnum = requires {
  EnumNames<E>::names;
};

/// The word for an enumerator: enum_name(Sharding::optimizer) is "optimizer".
template <NamedEnum E>
constexpr std::string_view enum_name(E value) {
  return EnumNames<E>::names[static_cast<std::size_t>(value)];
}

/// The enumerator a word stands for, if there is one.
template <NamedEnum E>
constexpr std::optional<E> enum_from_name(std::string_view name) {
  for (std::size_t i = 0; i < EnumNames<E>::names.size(); ++i)
    if (EnumNames<E>::names[i] == name) return static_cast<E>(i);
  return std::nullopt;
}

}  // namespace triplepoint::spec
