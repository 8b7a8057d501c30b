// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/bucket.h"

#include <algorithm>
#include <limits>

namespace triplepoint::trainer {
namespace {

using spec::GroupKind;
using spec::Sharding;

/// Gradient bytes at which a bucket is full.
double full_at(const spec::Plan& plan) {
  const double unlimited = std::numeric_limits<double>::infinity();
  if (plan.gradient_bucket) return *plan.gradient_bucket / unit::B;
  return plan.overlap_gradient ? 0 : unlimited;
}

class BucketMaker {
 public:
  BucketMaker(const spec::Job& job, bool tied, std::vector<Bucket>& buckets)
      : job_(job), tied_(tied), buckets_(buckets) {}

  void add(UnitName name, std::vector<Parameter>& parameters) {
    const bool by_unit = job_.plan.sharding == Sharding::parameters || !job_.plan.gradient_bucket;
    for (Parameter& parameter : parameters) {
      if (parameter.tied == tied_) add(name, parameter);
      if (!by_unit && is_full()) close();
    }
    if (by_unit && is_full()) close();
  }
  void close() {
    if (bucket_.count > 0) buckets_.push_back(std::move(bucket_));
    bucket_ = Bucket();
  }

 private:
  bool is_full() const {
    if (job_.plan.sharding == Sharding::parameters) return true;
    return job_.plan.optimizer.gradient_sync_bytes * as_real(bucket_.count) >= full_at(job_.plan);
  }
  void add(UnitName name, Parameter& parameter) {
    bucket_.tied = tied_;
    if (bucket_.units.empty() || !(bucket_.units.back() == name)) bucket_.units.push_back(name);
    const int64_t end = bucket_.count + parameter.count();
    bucket_.pieces.push_back({&parameter, bucket_.count, end, 0});
    bucket_.count = end;
  }

  const spec::Job& job_;
  bool tied_;
  std::vector<Bucket>& buckets_;
  Bucket bucket_;
};

Communicator* unless_alone(Communicator& group) {
  return group.size() > 1 ? &group : nullptr;
}

/// Who shares and who repeats a bucket, and which block is this rank's.
void divide(const spec::Job& job, const RankGroups& groups, Bucket& bucket) {
  const Sharding sharding = job.plan.sharding;
  const bool hybrid = groups.of(GroupKind::shard).size() < groups.of(GroupKind::data).size();
  if (sharding == Sharding::none) {
    bucket.replica = unless_alone(groups.of(GroupKind::data));
  } else if (hybrid) {
    bucket.shard = unless_alone(groups.of(GroupKind::shard));
    bucket.replica = unless_alone(groups.of(GroupKind::replica));
  } else {
    bucket.shard = unless_alone(groups.of(GroupKind::data));
  }
  const int64_t ranks = bucket.shard != nullptr ? bucket.shard->size() : 1;
  const int64_t index = bucket.shard != nullptr ? bucket.shard->index() : 0;
  bucket.owned_begin = bucket.count * index / ranks;
  bucket.owned_end = bucket.count * (index + 1) / ranks;
}

}  // namespace

std::vector<Piece> Bucket::owned_pieces() const {
  std::vector<Piece> owned;
  for (const Piece& piece : pieces) {
    const int64_t begin = std::max(piece.begin, owned_begin), end = std::min(piece.end, owned_end);
    if (begin < end)
      owned.push_back({piece.parameter, begin, end, piece.first + begin - piece.begin});
  }
  return owned;
}

std::vector<Bucket> make_buckets(const spec::Job& job,
                                 const std::vector<std::vector<Unit>*>& chunks,
                                 const RankGroups& groups) {
  std::vector<Bucket> buckets;
  for (size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    for (const bool tied : {false, true}) {
      BucketMaker maker(job, tied, buckets);
      for (size_t unit = 0; unit < chunks[chunk]->size(); ++unit)
        maker.add({chunk, unit}, (*chunks[chunk])[unit].parameters);
      maker.close();
    }
  }
  for (Bucket& bucket : buckets)
    divide(job, groups, bucket);
  return buckets;
}

}  // namespace triplepoint::trainer
