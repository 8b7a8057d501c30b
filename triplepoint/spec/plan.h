// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/spec/op.h"

namespace triplepoint::spec {

/// How records become rows of a microbatch: each padded to the sequence length; each padded to the
/// longest of its microbatch; several in one row of the sequence length.
enum class RecordLayout { padded, longest, packed };

/// Lengths of the records that a job trains on, as a table: `shares[i]` of all records (in any
/// unit: counts serve) have `lengths[i]` tokens.
struct Records {
  std::string name;
  std::vector<int64_t> lengths;  // tokens of a record, prompt and answer together
  std::vector<double> shares;    // of the records; counts serve as well
  friend bool operator==(const Records&, const Records&) = default;

  /// sum of share * length over sum of share; 0 of an empty table.
  double mean_length() const {
    double sum = 0, tokens = 0;
    for (std::size_t i = 0; i < lengths.size() && i < shares.size(); ++i) {
      sum += shares[i];
      tokens += shares[i] * as_real(lengths[i]);
    }
    return sum > 0 ? tokens / sum : 0;
  }
};

enum class Sharding { none, optimizer, gradients, parameters };  // ZeRO-0/1/2/3; FSDP = parameters
enum class Recompute { none, selective, full };
/// Parts of a layer that selective recompute recomputes, spelled as Megatron-Core's
/// --recompute-modules: the attention core; latent attention's up-projections and rotary embedding;
/// norms; the experts' activation; a dense MLP; a whole MoE layer, dispatch included; the shared
/// expert. And torchtitan's selective checkpointing by operator: every second matrix product, and
/// everything else but attention.
enum class RecomputeModule {
  core_attn,
  mla_up_proj,
  layernorm,
  moe_act,
  mlp,
  moe,
  shared_experts,
  alternate_gemms
};
enum class Schedule { gpipe, one_f_one_b, interleaved, zero_bubble };
enum class RankOrder { tp_cp_ep_dp_pp, tp_pp_dp };
enum class ContextExchange { ring, all_gather };  // how keys and values reach the other CP ranks

/// Bytes per parameter of the optimizer's implementation, before sharding.
struct OptimizerState {
  std::string name = "distributed_fused_adam";
  double weight_bytes = 2;         // of the copy that computes
  double gradient_bytes = 4;       // accumulation buffer
  double moment_bytes = 8;         // exp_avg + exp_avg_sq
  double master_bytes = 2;         // 4 where a whole fp32 copy is kept instead of 16-bit remainders
  double gradient_sync_bytes = 4;  // per element on the wire of the data-parallel reduction
  friend bool operator==(const OptimizerState&, const OptimizerState&) = default;
};

struct Lora {
  int64_t rank = 32;  // of the adapters
  std::vector<std::string> targets = {
      "attention_qkv"};     // attention_qkv, attention_dense, mlp_fc1, mlp_fc2
  double dropout = 0;       // share of an adapter's inputs that it drops; its kernel costs the same
                            // at any rate above 0
  bool all_to_all = false;  // outputs of adapters beside row-parallel matrices change from split
                            // features to split sequences by an all-to-all; else they are gathered
  friend bool operator==(const Lora&, const Lora&) = default;
};

/// How the tensors between pipeline stages are sent.
struct PipelineSends {
  std::optional<Bytes> chunk;   // largest message of a send; absent: one message
  int64_t nics = 1;             // NICs of a node that one send is spread over
  int64_t microbatches = 1;     // whose tensors leave together, as one send
  bool scatter_gather = false;  // a tensor that all tensor ranks hold is sent by parts, one a rank,
                                // and gathered behind the send
  friend bool operator==(const PipelineSends&, const PipelineSends&) = default;
};

/// Layout of a model over ranks, and its schedule. Sizes are ranks per group; data_parallel_size is
/// derived.
struct Plan {
  int64_t tensor_parallel_size = 1;                    // ranks that split each layer's matrices
  int64_t pipeline_parallel_size = 1;                  // stages of layers
  int64_t context_parallel_size = 1;                   // ranks that split each sequence
  int64_t expert_parallel_size = 1;                    // ranks that split the experts of a layer
  std::optional<int64_t> expert_tensor_parallel_size;  // absent: = tensor_parallel_size
  int64_t virtual_pipeline_size = 1;                   // chunks of layers per stage
  bool sequence_parallel = false;  // norms and dropout are split over the tensor group as well
  // Trunk of the layers kept in fp32: Megatron's fp32_residual_connection; also NeMo's FSDP with
  // megatron_amp_O2 false, where unsharded fp32 biases or positions promote it
  // (docs/models/memory.md).
  bool fp32_residual = false;

  int64_t micro_batch_size = 1;  // sequences of one rank at once
  int64_t global_batch_size =
      1;  // sequences of a step; default: 128, or the next that ranks can share

  Sharding sharding =
      Sharding::none;  // over data-parallel ranks; default: optimizer where there are several
  bool reshard_after_forward = true;  // parameters are gathered again for backward (FSDP)
  int64_t sharding_group_size = 0;  // hybrid sharding: ranks per shard group; 0: the whole DP group
  int64_t prefetch_depth = 1;       // layers gathered ahead (FSDP)
  // Value of CUDA_DEVICE_MAX_CONNECTIONS; absent: the driver's default. With 1, kernels of all
  // streams start in the order of their launch, so FSDP gathers for a forward pass do not overlap.
  std::optional<int64_t> cuda_device_max_connections;

  Recompute recompute = Recompute::none;    // activations computed again in the backward pass
  std::optional<int64_t> recompute_layers;  // per stage chunk, block method; absent: all
  std::vector<RecomputeModule> recompute_modules;  // of selective recompute; empty: core_attn

  // Share of what layers keep for their backward pass that waits in the host's memory: it is copied
  // there behind the forward pass, and back behind the backward pass.
  double activation_offload = 0;

  bool overlap_tensor = false;           // userbuffers
  bool overlap_gradient = false;         // DP gradient reduction behind backward
  bool overlap_parameter = false;        // DP parameter gather behind forward
  bool overlap_pipeline = false;         // send/recv behind compute
  bool overlap_expert = false;           // MoE all-to-all behind the compute of another microbatch
  std::optional<int64_t> packed_length;  // tokens of one document in a packed sequence: attention
                                         // stays inside of it; absent: one document a sequence
  // How the job's records become rows of a microbatch; changes nothing where it states none.
  RecordLayout record_layout = RecordLayout::padded;
  std::optional<Bytes> gradient_bucket;

  Schedule schedule = Schedule::one_f_one_b;  // default: interleaved where there are virtual stages
  RankOrder rank_order =
      RankOrder::tp_cp_ep_dp_pp;  // which groups have neighbouring ranks, closest first
  ContextExchange context_exchange =
      ContextExchange::ring;  // of keys and values between context ranks
  std::vector<int64_t>
      layers_per_stage;  // empty: even; else PP (x VPP) counts that sum to num_layers
  // Device that each rank of a node sits on: gpus_per_node entries, alike in every node, or that
  // many for each node of the job in turn. Empty: 0, 1, 2, ...
  std::vector<int64_t> device_order;
  std::vector<int64_t> node_order;  // node of each block of ranks (the host file); empty: 0, 1, ...

  Precision precision = Precision::bf16;  // of the matrix products
  bool fp8_attention = false;  // attention's two products in 8 bits, too (Transformer Engine's
                               // fp8_dpa), where linear layers are
  OptimizerState optimizer;    // by name or in full; default: the stack's
  std::optional<PipelineSends> sends;  // between stages; default: one message each, over one NIC
  std::optional<Lora> lora;            // adapters are trained, all else is frozen
  friend bool operator==(const Plan&, const Plan&) = default;

  /// Is this part among those that selective recompute recomputes, whether or not it is on?
  bool selects(RecomputeModule module) const {
    if (recompute_modules.empty()) return module == RecomputeModule::core_attn;
    return holds(recompute_modules, module);
  }
  bool recomputes(RecomputeModule module) const {
    return recompute == Recompute::selective && selects(module);
  }
  bool attends_in_fp8() const { return fp8_attention && is_quantized(precision); }
  int64_t model_parallel_size() const {
    return tensor_parallel_size * pipeline_parallel_size * context_parallel_size;
  }
  int64_t expert_tensor_size() const {
    return expert_tensor_parallel_size.value_or(tensor_parallel_size);
  }
};

}  // namespace triplepoint::spec
