// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace triplepoint::trainer {

/// The tokens of every sequence that one rank of a context group holds. A sequence is cut into
/// 2 `ranks` pieces, of which rank r holds r and 2 ranks - 1 - r: causal work is then even. One
/// rank holds all of it in one piece.
/// Source: Megatron-LM, megatron/core/utils.py (get_batch_on_this_cp_rank).
struct SequencePart {
  int64_t length = 0;  // of the whole sequence
  int64_t ranks = 1, index = 0;

  int64_t pieces() const { return ranks > 1 ? 2 : 1; }
  int64_t piece_length() const { return held() / pieces(); }
  int64_t held() const { return length / ranks; }
  /// Position in the sequence of the first token of a piece held here.
  int64_t piece_position(int64_t piece) const {
    return (piece == 0 ? index : 2 * ranks - 1 - index) * piece_length();
  }
  /// Position in the sequence of the i-th token held here.
  int64_t position(int64_t i) const {
    return piece_position(i / piece_length()) + i % piece_length();
  }
};

}  // namespace triplepoint::trainer
