// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "triplepoint/workload/rank_share.h"

#include "trainer/runtime/parameter_store.h"
#include "trainer/spans.h"

namespace triplepoint::trainer {
namespace {

using spec::GroupKind;
using spec::Sharding;

/// Which ranks' squares are added, and how many of them hold the same element.
struct Copies {
  bool over_data = false;
  double of_dense = 1, of_experts = 1;
};

Copies copies_in_sums(const spec::Job& job) {
  const workload::RankShare share = workload::share_of_rank(job);
  const bool divided = job.plan.sharding != Sharding::none;
  // Experts that are dealt out over more ranks than the tensor group has: their squares lie apart.
  const bool experts_apart =
      job.model.moe && !job.plan.lora && share.expert * share.expert_tensor > share.tensor;
  Copies copies;
  copies.over_data = share.data > 1 && (divided || experts_apart);
  if (copies.over_data) {
    copies.of_dense = static_cast<double>(divided ? share.data / share.shard : share.data);
    copies.of_experts = divided ? 1 : static_cast<double>(share.expert_data);
  } else {
    copies.of_experts =
        static_cast<double>(share.tensor) / static_cast<double>(share.expert * share.expert_tensor);
  }
  return copies;
}

}  // namespace

double ParameterStore::own_squares() {
  const ScopedSpan span({.name = "gradient_norm"});
  const Copies copies = copies_in_sums(job_);
  const bool first_tensor_rank = groups_.of(GroupKind::tensor).index() == 0;
  const bool later_stage = groups_.of(GroupKind::pipeline).index() > 0;
  double sum = 0;
  for (Bucket& bucket : buckets_) {
    if (!bucket.trained || (bucket.tied && later_stage)) continue;
    const float* gradient = owned_gradient(bucket).data();
    for (const Piece& piece : bucket.owned_pieces()) {
      if (piece.parameter->on_every_tensor_rank && !first_tensor_rank && !bucket.experts) continue;
      const double squares = math_.sum_of_squares(piece.end - piece.begin,
                                                  gradient + (piece.begin - bucket.owned_begin));
      sum += squares / (bucket.experts ? copies.of_experts : copies.of_dense);
    }
  }
  return sum;
}

double ParameterStore::gradient_norm() {
  auto squares = static_cast<float>(own_squares());
  if (copies_in_sums(job_).over_data) groups_.of(GroupKind::data).all_reduce({&squares, 1}).wait();
  Communicator& model = groups_.of(GroupKind::model);
  if (model.size() > 1) model.all_reduce({&squares, 1}).wait();
  return std::sqrt(static_cast<double>(squares));
}

}  // namespace triplepoint::trainer
