// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/model/normalization.h"
#include "trainer/model/tensor_region.h"

namespace triplepoint::trainer {

/// Vocabulary-parallel lookup, learned positions, dropout.
class EmbeddingBlock {
 public:
  EmbeddingBlock(ModelContext&, std::vector<Parameter>& parameters);

  Buffer forward(const Tokens&);
  /// `gradient`: of the first layer's input; is overwritten.
  void backward(const Tokens&, Half, float* gradient, Buffer& kept_gradient);

  ParameterRef words() const { return words_; }

 private:
  void add_positions(const Tokens&, float* trunk);
  void add_position_gradient(const float* gradient);
  int64_t first_position() const;

  ModelContext& context_;
  ParameterRef words_, positions_;
};

/// What the head keeps of a microbatch.
struct HeadKept {
  Buffer trunk, normed, statistics;
  Buffer logits;        // then exponentials, then their gradients
  Buffer maximum, sum;  // of each token, over the whole vocabulary
  LinearKept linear;
};

/// Last norm, LM head, vocabulary-parallel cross-entropy over words only: what pads the vocabulary
/// takes no part, so that its size does not matter.
class HeadBlock {
 public:
  /// `tied`: the embedding's words where they lie on the same rank, else null.
  HeadBlock(ModelContext&, ParameterRef tied, std::vector<Parameter>& parameters);

  /// Adds the tokens' losses to math's.
  void forward(const Tokens&, Buffer trunk, HeadKept&);
  /// Writes the gradient of the trunk; `weight`: what a token's loss counts.
  void backward(const Tokens&, Half, HeadKept&, double weight, float* gradient);

 private:
  void loss(const Tokens&, HeadKept&);
  LogitShape logit_shape() const;

  ModelContext& context_;
  Normalization norm_;
  EntranceLinear words_;
};

}  // namespace triplepoint::trainer
