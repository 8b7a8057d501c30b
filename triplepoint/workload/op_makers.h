// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/op.h"

#include "triplepoint/workload/rank_grid.h"

namespace triplepoint::workload {

/// The passes of a part of the model.
///
/// Parts are written front to back, the backward passes too; `turn_backward` turns those round once
/// at the end. So a collective and its mirror image stand beside each other in the code.
struct Passes {
  std::vector<spec::Op> forward, backward_input, backward_weight;
  std::vector<spec::Op> again;  // of forward: what selective recompute repeats

  Passes() {
    constexpr size_t most_of_usual_layers = 32;
    for (std::vector<spec::Op>* ops : {&forward, &backward_input, &backward_weight})
      ops->reserve(most_of_usual_layers);
  }

  void turn_backward() {
    std::ranges::reverse(backward_input);
    std::ranges::reverse(backward_weight);
  }
};

/// What the makers of ops share: the job and one rank's share of it.
struct LayerContext {
  const spec::Job& job;
  RankShare share;
  bool windowed = false;  // attention of the layer at hand looks back a window

  const spec::Model& model() const { return job.model; }
  const spec::Plan& plan() const { return job.plan; }
  const spec::Stack& stack() const { return job.stack; }
  LayerContext of_kind(spec::LayerKind kind) const { return {job, share, spec::is_windowed(kind)}; }
  spec::Precision vector_precision() const;  // of everything but GEMMs: bf16 where those are fp8
};

/// What `add` puts into the forward pass is this module. Selective recompute of it repeats it,
/// and modules inside of it with it.
void add_module(const LayerContext& context, spec::RecomputeModule module, Passes& passes,
                auto add) {
  const size_t before = passes.forward.size(), again = passes.again.size();
  add();
  if (!context.plan().selects(module)) return;
  passes.again.resize(again);
  passes.again.insert(passes.again.end(),
                      passes.forward.begin() + static_cast<std::ptrdiff_t>(before),
                      passes.forward.end());
}

/// A kernel that streams tensors: `bytes` read plus written.
spec::Op streaming(const LayerContext&, std::string_view name, spec::OpClass, double bytes,
                   int kernels = 1);

/// A collective; `payload` as nccl-tests count S.
spec::Op collective(std::string_view name, spec::Collective, spec::GroupKind, double payload,
                    spec::Overlap overlap = spec::Overlap::none);

/// A linear layer of one rank: [tokens, in] x [in, out], `count` of them side by side (experts).
struct Linear {
  std::string_view name, input_gradient, weight_gradient;
  int64_t tokens = 0, in = 0, out = 0, count = 1;
  bool quantized = true;  // fp8 where the plan says fp8; LM head and router stay in bf16
  bool one_kernel_each = false;
  bool cast_fused = false;            // the kernel before writes fp8 itself
  bool row_parallel = false;          // TP splits its input, and its outputs are partial sums
  int64_t bias_rows = 0;              // output rows summed for the gradient of a bias
  std::string_view lora_target = {};  // empty: never adapted
};

/// Share of the linear layers that training in 4 bits leaves in bf16; each layer here carries its
/// part of them. Source: NVIDIA 2025, arXiv 2509.25149 (about 15 per cent).
inline constexpr double nvfp4_bf16_share = 0.15;

/// The GEMMs of a linear layer, and of its LoRA adapter where the plan has one.
///
/// Forward [t, out, in], input gradient [t, in, out], weight gradient [out, in, t].
/// Bytes: each operand once. The weight gradient adds into a buffer of optimizer.gradient_bytes
/// (read and written), except under FSDP, where it is written once and reduced each microbatch.
/// A bias is added by the kernel that follows; its gradient is a sum over rows, its own kernel.
void add_linear(const LayerContext&, const Linear&, Passes&);

/// Bytes of a linear layer's parameter as FSDP gathers it: one in 8 bits of one scale per tensor
/// where each parameter is its own tensor (torchao casts the shards: enable_fsdp_float8_all_gather,
/// WeightWithDynamicFloat8CastTensor), else those of an activation.
double gathered_element(const LayerContext&);

/// Has the linear layer of this name a LoRA adapter?
bool is_adapted(const LayerContext&, std::string_view lora_target);

/// Kernels between the matrix products: they stream tensors through memory, so their cost is the
/// bytes they read and write. e: bytes of an activation; n: elements.
///
///   norm        fused 2 e n, backward 3 e n (+ a second kernel for the gains); a composed RMSNorm
///               is six kernels over fp32 copies, 36 bytes an element, a LayerNorm one of 3 e n
///   residual    bias + dropout + add: fused 3 e n (+ 1 n for the mask), else each reads and writes
///   rotary      fused 2 e n in two kernels, composed (rotate, two products, sum) 7 e n in eight
///   activation  GELU 2 e f, backward 3 e f; SwiGLU 3 e f, backward 5 e f (f: its outputs);
///               composed SwiGLU writes the intermediate: 5 e f, backward 9 e f
/// Sources: tensors counted by hand from Megatron-Core's and Transformer Engine's kernels; composed
/// forms from PyTorch's elementwise kernels. See docs/models/workload.md.
void add_norm(const LayerContext&, std::string_view name, double elements, Passes&);

/// A norm at the head of a residual branch: backward also adds the branch's gradient to the
/// trunk's.
void add_residual_norm(const LayerContext&, std::string_view name, Passes&);

/// Bias, dropout and the addition to the trunk.
void add_residual(const LayerContext&, std::string_view name, Passes&);

void add_rotary_embedding(const LayerContext&, double elements, Passes&);

/// `outputs`: elements after the activation.
void add_activation(const LayerContext&, double outputs, Passes&);

/// How whole activations enter and leave a tensor-parallel region, in order of execution.
///
/// Without sequence parallelism: nothing / all-reduce forward, and the mirror image backward; so
/// four all-reduces of s b h elements per layer. With it: all-gather / reduce-scatter forward,
/// reduce-scatter / all-gather backward, and the input gathered once more for the weight gradient,
/// because only its shard was kept.
/// Overlap: with userbuffers all of them; without, only what runs on its own stream: the
/// gather for the weight gradient (behind the input gradient) and the reduction of the input
/// gradient (behind the weight gradient).
/// Payload: element bytes x tokens x hidden, the whole array.
/// Sources: Shoeybi et al. 2019, section 3; Korthikanti et al. 2022, section 4.2; Megatron-LM,
/// megatron/core/tensor_parallel/layers.py.
void enter_tensor_region(const LayerContext&, Passes&);
void leave_tensor_region(const LayerContext&, Passes&);

/// Call it right after the linear layer that follows the entrance.
void gather_for_weight_gradient(const LayerContext&, Passes&);

/// How whole activations enter an adapter beside a matrix split by columns (attention_qkv,
/// mlp_fc1), and leave one beside a matrix split by rows (attention_dense, mlp_fc2); not hidden.
///
///                        forward                     backward
///   enter, without SP    nothing                     all-reduce
///   enter, with SP       with userbuffers all-gather, reduce-scatter; else the base hands its
///                        gathered input on and reduces both gradients at once
///   leave, without SP    all-gather of the features  nothing
///   leave, with SP       all-gather                  all-gather; or, with lora.all_to_all, an
///                        all-to-all of 1/TP of the payload each way
/// Source: NeMo, ParallelLinearAdapter; Transformer Engine, return_layernorm_output_gathered.
void enter_adapter(const LayerContext&, Passes&);
void leave_adapter(const LayerContext&, Passes&);

double activation_payload(const LayerContext&);

}  // namespace triplepoint::workload
