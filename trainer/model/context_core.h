// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/model/context.h"

namespace triplepoint::trainer {

/// The core of attention where the ranks of a context group hold parts of every sequence.
///
/// plan.context_exchange says how keys and values come to the queries of all ranks:
/// ring: they travel from rank to rank, and each block is computed on while the next one comes.
///   Backward they travel again, followed by their gradients, which end where the keys are held.
/// all_gather: they are gathered, backward gathered again, and their gradients scattered.
/// Source: Liu, Zaharia, Abbeel: Ring Attention with Blockwise Transformers, 2023; Transformer
/// Engine, attention/dot_product_attention/context_parallel.py (AttnFuncWithCPAndKVP2P and
/// AttnFuncWithCPAndKVAllGather, whose backward pass gathers keys and values again).
class ContextCore {
 public:
  explicit ContextCore(ModelContext& context) : context_(context) {}

  void forward(const Attention&, const float* qkv, float* out, float* sums);
  /// Writes the gradients over `qkv`.
  void backward(const Attention&, float* qkv, const float* out, const float* out_gradient,
                const float* sums);

 private:
  bool gathers() const;
  int64_t block_size(const Attention& shape) const {
    return context_.tokens() * shape.keys_width();
  }
  /// The rank whose keys come in this step of the ring: those before this one, its own first.
  int64_t source_of(int64_t step) const;
  AttentionPair pair_with(int64_t source) const;
  void pack_keys(const Attention&, const float* qkv, float* keys);
  Buffer gather_keys(const Attention&, const float* qkv);
  void attend(const Attention&, int64_t source, const float* qkv, const float* keys, float* out,
              float* sums);
  void attend_backward(const Attention&, int64_t source, const float* qkv, const float* keys,
                       const AttentionGradients&);
  /// Visits the keys of all ranks, own ones first: visit(source, keys).
  template <class Visit>
  void for_each_block(const Attention&, const float* qkv, const Visit&);
  /// Adds to the gradients of the queries and keys held here, from all ranks.
  void backward_on_ring(const Attention&, const float* qkv, const AttentionGradients& own);
  void backward_gathered(const Attention&, const float* qkv, const AttentionGradients& own);

  ModelContext& context_;
};

/// Of the core with equally many queries and keys, half of which a query sees on average; so it is
/// for the keys of any rank of a context group.
SpanText core_text(const ModelContext&, const Attention&);
SpanText core_backward_text(const ModelContext&, const Attention&);

}  // namespace triplepoint::trainer
