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
inline constexpr std::nullptr_t enum_names = nullptr;

template <std::size_t N>
constexpr std::array<std::string_view, N> words(const char* const (&list)[N]) {
  std::array<std::string_view, N> result;
  for (std::size_t i = 0; i < N; ++i)
    result[i] = list[i];
  return result;
}

template <>
inline constexpr auto enum_names<NumberKind> = words({"datasheet", "measured", "fitted",
                                                      "assumed"});
template <>
inline constexpr auto enum_names<Precision> = words({"bf16", "fp16", "fp8", "fp32", "mxfp8",
                                                     "nvfp4"});
template <>
inline constexpr auto enum_names<ScoreMetric> =
    words({"tokens_per_second_per_gpu", "joules_per_token", "power_peak_w", "temperature_peak_c",
           "throttled_share", "thermal_spread_k", "step_time_variation", "step_time_drift"});
template <>
inline constexpr auto enum_names<OpClass> = words({"gemm", "grouped_gemm", "attention", "norm",
                                                   "elementwise", "router", "embedding", "loss",
                                                   "optimizer", "communication"});
template <>
inline constexpr auto enum_names<Collective> = words({"all_reduce", "all_gather", "reduce_scatter",
                                                      "all_to_all", "broadcast", "send_recv"});
template <>
inline constexpr auto enum_names<GroupKind> = words({"tensor", "context", "expert", "expert_tensor",
                                                     "data", "expert_data", "pipeline", "model",
                                                     "embedding", "shard", "replica"});
template <>
inline constexpr auto enum_names<Overlap> = words({"none", "tensor", "prefetch", "gradient",
                                                   "parameter", "copy"});
template <>
inline constexpr auto enum_names<Activation> = words({"gelu", "swiglu", "squared_relu"});
template <>
inline constexpr auto enum_names<Normalization> = words({"layer_norm", "rms_norm"});
template <>
inline constexpr auto enum_names<PositionEmbedding> = words({"learned", "rope", "none"});
template <>
inline constexpr auto enum_names<ScaleUpKind> = words({"nvswitch", "mesh", "pcie"});
template <>
inline constexpr auto enum_names<FabricKind> = words({"fat_tree", "rail_optimized", "dragonfly"});
template <>
inline constexpr auto enum_names<Cooling> = words({"air", "liquid", "immersion"});
template <>
inline constexpr auto enum_names<Sharding> = words({"none", "optimizer", "gradients",
                                                    "parameters"});
template <>
inline constexpr auto enum_names<Recompute> = words({"none", "selective", "full"});
template <>
inline constexpr auto enum_names<RecomputeModule> = words({"core_attn", "mla_up_proj", "layernorm",
                                                           "moe_act", "mlp", "moe",
                                                           "shared_experts", "alternate_gemms"});
template <>
inline constexpr auto enum_names<Schedule> = words({"gpipe", "one_f_one_b", "interleaved",
                                                    "zero_bubble"});
template <>
inline constexpr auto enum_names<RankOrder> = words({"tp-cp-ep-dp-pp", "tp-pp-dp"});
template <>
inline constexpr auto enum_names<RecordLayout> = words({"padded", "longest", "packed"});
template <>
inline constexpr auto enum_names<ContextExchange> = words({"ring", "all_gather"});
template <>
inline constexpr auto enum_names<AttentionKernels> = words({"unfused", "flash_1", "flash_2",
                                                            "native"});
template <>
inline constexpr auto enum_names<LossKernels> = words({"fused", "megatron_fused", "megatron",
                                                       "floats", "op_by_op", "none"});
template <>
inline constexpr auto enum_names<ShardedTensors> = words({"in_place", "flat", "per_parameter"});
template <>
inline constexpr auto enum_names<ContextAttention> = words({"overlapped", "merged_blocks"});
template <>
inline constexpr auto enum_names<FaultKind> = words({"power", "fan", "inlet", "heat_path", "link",
                                                     "host", "node_lost"});
template <>
inline constexpr auto enum_names<Task> = words({"pretrain", "lora", "prefill", "decode"});
template <>
inline constexpr auto enum_names<Diagnosis::Severity> = words({"error", "warning"});
template <>
inline constexpr auto enum_names<DiagnosisCode> = words(
    {"layers_not_divisible", "world_not_divisible", "batch_not_divisible", "experts_not_divisible",
     "heads_not_divisible", "head_dimension", "tensor_overlap_without_sequence_parallel",
     "node_count_mismatch", "inert_option", "unsupported", "inconsistent"});

template <class E>
concept NamedEnum = requires {
  enum_names<E>.size();
};

/// The word for an enumerator: enum_name(Sharding::optimizer) is "optimizer".
template <NamedEnum E>
constexpr std::string_view enum_name(E value) {
  return enum_names<E>[static_cast<std::size_t>(value)];
}

/// The enumerator a word stands for, if there is one.
template <NamedEnum E>
constexpr std::optional<E> enum_from_name(std::string_view name) {
  for (std::size_t i = 0; i < enum_names<E>.size(); ++i)
    if (enum_names<E>[i] == name) return static_cast<E>(i);
  return std::nullopt;
}

}  // namespace triplepoint::spec
