// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "triplepoint/workload/op_makers.h"

namespace triplepoint::workload {

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

}  // namespace triplepoint::workload
