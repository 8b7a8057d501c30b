// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/workload/op_makers.h"

namespace triplepoint::workload {

/// Vocabulary-parallel lookup: each TP rank finds its part of the words, the sum is reduced (or
/// reduced and scattered). Its gradient is a weight gradient only.
void add_embedding(const LayerContext&, Passes&);

/// Last norm, LM head, vocabulary-parallel cross-entropy. Inference computes logits of the last
/// token only, and no loss.
///
/// The loss keeps each rank's part of the logits in fp32 and exchanges per token the maximum, the
/// target's logit and the sum: all-reduces of 4 bytes a token. Bytes per logit: 22 fused, 34
/// composed; backward 14 and 22.
/// Source: Megatron-LM, megatron/core/tensor_parallel/cross_entropy.py and fusions.
void add_head(const LayerContext&, Passes&);

}  // namespace triplepoint::workload
