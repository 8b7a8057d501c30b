// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "trainer/model/experts.h"
#include "trainer/model/mlp_block.h"
#include "trainer/model/normalization.h"

namespace triplepoint::trainer {

/// What a layer of experts keeps of a microbatch.
struct MoeKept {
  Buffer trunk, normed, statistics;
  Buffer scores, weights;  // of the router; scores, then their gradients
  std::vector<int32_t> chosen;
  Dispatch dispatch;
  std::vector<int64_t> sent_counts, received_counts;  // elements per expert-parallel rank
  int64_t received = 0, gathered = 0;                 // rows; `gathered` over expert TP
  std::vector<int64_t> gathered_counts;               // elements per expert-tensor rank
  ExpertsKept experts;
  Buffer returned;  // rows as the experts sent them back
  MlpCoreKept shared;

  void release();
};

/// Norm, router, dispatch, experts, combine, shared expert, residual.
///
/// Rows travel by all-to-all over the expert group. Where experts are cut over ranks that hold
/// different tokens (sequence parallelism), rows are gathered over those, and the partial results
/// reduced and scattered; where those ranks hold the same tokens, results are reduced only.
class MoeBlock {
 public:
  MoeBlock(ModelContext&, int64_t layer, Unit&);

  Buffer forward(Buffer trunk, MoeKept&);
  void backward(Half, MoeKept&, float* gradient);

 private:
  int64_t tokens() const { return context_.shard_tokens(); }
  bool gathers_rows() const;
  bool reduces_rows() const;
  bool is_padded() const;
  void route(MoeKept&);
  std::vector<int64_t> counts_of_all(Communicator& group, const std::vector<int64_t>& mine);
  std::vector<int64_t> received_rows(const MoeKept&);
  std::vector<int64_t> gathered_rows(std::vector<int64_t> counts);
  int64_t own_begin(const MoeKept&) const;
  void plan_rows(MoeKept&);
  Buffer to_experts(MoeKept&, const float* sent);    // -> received, gathered
  void from_experts(MoeKept&, Buffer, float* sent);  // the way back, summing
  Buffer sorted(MoeKept&, Buffer received, bool kept);
  Buffer unsorted(MoeKept&, Buffer sorted);
  void backward_rows(Half, MoeKept&, const float* branch_gradient, float* weight_gradient);
  void backward_router(MoeKept&, const float* weight_gradient, float* normed_gradient);

  ModelContext& context_;
  Normalization norm_;
  Linear router_;
  Experts experts_;
  std::optional<MlpCore> shared_;
};

}  // namespace triplepoint::trainer
