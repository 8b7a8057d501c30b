// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "triplepoint/workload/op_makers.h"

namespace triplepoint::workload {

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

double activation_payload(const LayerContext&);

}  // namespace triplepoint::workload
