// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/sharding.h"

#include <algorithm>

#include "trainer/runtime/rank_groups.h"

namespace triplepoint::trainer {
namespace {

void bind_gradient(Bucket& bucket, std::span<float> whole) {
  for (const Piece& piece : bucket.pieces)
    piece.parameter->gradient =
        whole.empty() ? whole
                      : whole.subspan(as_size(piece.begin), as_size(piece.end - piece.begin));
}

}  // namespace

std::span<float> owned_gradient(Bucket& bucket) {
  if (bucket.gradient.empty()) return bucket.owned_gradient.all();
  return bucket.gradient.all().subspan(as_size(bucket.owned_begin), as_size(bucket.owned()));
}

bool GradientReducer::reduces_each_microbatch(const spec::Job& job) {
  if (job.plan.sharding == spec::Sharding::parameters) return true;
  return job.plan.sharding == spec::Sharding::gradients &&
         (job.stack.gradient_sync_accumulates || job.num_microbatches() == 1);
}

GradientReducer::GradientReducer(const spec::Job& job, std::vector<Bucket>& buckets, Math& math,
                                 MemoryLedger& ledger)
    : job_(job),
      buckets_(buckets),
      map_(buckets),
      math_(math),
      ledger_(ledger),
      each_(reduces_each_microbatch(job)),
      behind_(job.plan.overlap_gradient || job.plan.sharding == spec::Sharding::parameters),
      open_(buckets.size()) {
  for (Bucket& bucket : buckets_) {
    if (each_ && bucket.shard != nullptr) {
      bucket.owned_gradient = Buffer::zeros(ledger_, MemoryTerm::gradients, bucket.owned());
    } else {
      bucket.gradient = Buffer::zeros(ledger_, MemoryTerm::gradients, bucket.count);
      bind_gradient(bucket, bucket.gradient.all());
    }
  }
}

void GradientReducer::begin_step() {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    Bucket& bucket = buckets_[i];
    Buffer& kept = bucket.gradient.empty() ? bucket.owned_gradient : bucket.gradient;
    math_.zero(static_cast<int64_t>(kept.all().size()), kept.all().data());
    open_[i].opened = open_[i].closed = 0;
    open_[i].reduced = false;
  }
}

void GradientReducer::attach(size_t index) {
  open_[index].gradient = Buffer::zeros(ledger_, MemoryTerm::buffers, buckets_[index].count);
  bind_gradient(buckets_[index], open_[index].gradient.all());
}

void GradientReducer::before_backward(UnitName name) {
  for (const size_t index : map_.of(name)) {
    const Bucket& bucket = buckets_[index];
    if (!bucket.gradient.empty()) continue;
    ++open_[index].opened;
    if (open_[index].gradient.empty()) attach(index);
  }
}

void GradientReducer::prepare(UnitName name) {
  for (const size_t index : map_.of(name)) {
    const Bucket& bucket = buckets_[index];
    if (bucket.gradient.empty() && open_[index].gradient.empty()) attach(index);
  }
}

void GradientReducer::after_backward(UnitName name) {
  for (const size_t index : map_.of(name)) {
    const Bucket& bucket = buckets_[index];
    const bool whole = !bucket.gradient.empty();
    if (whole && !(behind_ && last_)) continue;
    const auto units = static_cast<int64_t>(bucket.units.size());
    if (++open_[index].closed % units != 0) continue;
    if (whole)
      reduce_step(index);
    else
      reduce_microbatch(index);
  }
}

void GradientReducer::start(size_t index, std::span<float> whole, PendingReduction reduction) {
  Bucket& bucket = buckets_[index];
  reduction.bucket = index;
  if (bucket.shard != nullptr) {
    reduction.mine = Buffer(ledger_, MemoryTerm::buffers, bucket.owned());
    reduction.pending = bucket.shard->reduce_scatter(whole, reduction.mine.all());
  } else if (bucket.replica != nullptr) {
    reduction.pending = bucket.replica->all_reduce(whole);
  } else {
    return;
  }
  under_way_.push_back(std::move(reduction));
  if (!behind_) drain();
}

void GradientReducer::reduce_microbatch(size_t index) {
  drain();  // one gradient travels while the next one is made
  PendingReduction reduction;
  reduction.whole = std::move(open_[index].gradient);
  const std::span<float> whole = reduction.whole.all();
  if (open_[index].opened > open_[index].closed)
    attach(index);
  else
    bind_gradient(buckets_[index], {});
  start(index, whole, std::move(reduction));
}

void GradientReducer::reduce_step(size_t index) {
  if (open_[index].reduced) return;
  open_[index].reduced = true;
  start(index, buckets_[index].gradient.all(), PendingReduction());
}

void GradientReducer::complete(PendingReduction& reduction) {
  reduction.pending.wait();
  Bucket& bucket = buckets_[reduction.bucket];
  if (bucket.shard == nullptr) return;  // all-reduced in place
  const std::span<float> mine = reduction.mine.all();
  if (bucket.replica != nullptr) bucket.replica->all_reduce(mine).wait();
  const std::span<float> owned = owned_gradient(bucket);
  if (bucket.gradient.empty())
    math_.add(bucket.owned(), mine.data(), owned.data());
  else
    math_.copy(bucket.owned(), mine.data(), owned.data());
}

void GradientReducer::drain() {
  while (!under_way_.empty()) {
    complete(under_way_.front());
    under_way_.pop_front();
  }
}

void GradientReducer::finish() {
  for (size_t i = 0; i < buckets_.size(); ++i)
    if (!buckets_[i].gradient.empty()) reduce_step(i);
  drain();
}

ParameterGatherer::ParameterGatherer(const spec::Job& job, std::vector<Bucket>& buckets,
                                     std::vector<Chunk> chunks, Math& math, MemoryLedger& ledger)
    : job_(job),
      buckets_(buckets),
      map_(buckets),
      chunks_(std::move(chunks)),
      math_(math),
      ledger_(ledger),
      held_(buckets.size()) {
  for (size_t i = 0; i < buckets_.size(); ++i)
    if (alone(buckets_[i])) bind(i);
}

/// One copy of an unsharded bucket: used as it is.
bool ParameterGatherer::alone(const Bucket& bucket) const {
  return bucket.shard == nullptr;
}

bool ParameterGatherer::resharded(UnitName name) const {
  return job_.plan.reshard_after_forward && chunks_[name.chunk].is_layer[name.unit];
}

void ParameterGatherer::begin_forward(size_t chunk) {
  sequence_.clear();
  for (size_t unit = 0; unit < chunks_[chunk].units; ++unit)
    sequence_.push_back({{chunk, unit}, Use::forward});
  started_ = reached_ = 0;
}

void ParameterGatherer::begin_backward(size_t chunk) {
  sequence_.clear();
  for (size_t unit = chunks_[chunk].units; unit-- > 0;) {
    if (!resharded({chunk, unit})) continue;
    if (chunks_[chunk].is_recomputed[unit]) sequence_.push_back({{chunk, unit}, Use::recompute});
    sequence_.push_back({{chunk, unit}, Use::backward});
  }
  started_ = reached_ = 0;
}

void ParameterGatherer::start(size_t index) {
  Bucket& bucket = buckets_[index];
  if (alone(bucket)) return;
  Gather gather;
  gather.whole = Buffer(ledger_, MemoryTerm::buffers, bucket.count);
  gather.pending = bucket.shard->all_gather(bucket.owned_value.all(), gather.whole.all());
  held_[index].coming.push_back(std::move(gather));
}

void ParameterGatherer::start(const Event& event) {
  for (const size_t bucket : map_.of(event.name))
    start(bucket);
}

void ParameterGatherer::bind(size_t index) {
  Bucket& bucket = buckets_[index];
  const std::span<float> whole =
      alone(bucket) ? bucket.owned_value.all() : held_[index].now.whole.all();
  for (const Piece& piece : bucket.pieces)
    piece.parameter->value =
        whole.empty() ? whole
                      : whole.subspan(as_size(piece.begin), as_size(piece.end - piece.begin));
}

void ParameterGatherer::reach(UnitName name, Use use) {
  if (reached_ == sequence_.size() || !(sequence_[reached_].name == name) ||
      sequence_[reached_].use != use)
    return;  // still whole
  const auto ahead = as_size(std::max<int64_t>(0, job_.plan.prefetch_depth));
  while (started_ < sequence_.size() && started_ <= reached_ + ahead)
    start(sequence_[started_++]);
  ++reached_;
  for (const size_t index : map_.of(name)) {
    UnitGathers& held = held_[index];
    if (held.coming.empty()) continue;
    held.coming.front().pending.wait();
    held.now = std::move(held.coming.front());
    held.coming.pop_front();
    bind(index);
  }
}

void ParameterGatherer::let_go(UnitName name) {
  for (const size_t index : map_.of(name)) {
    if (alone(buckets_[index])) continue;
    held_[index].now = Gather();
    bind(index);
  }
}

void ParameterGatherer::before_forward(UnitName name) {
  for (const size_t index : map_.of(name))
    ++held_[index].open_forward;
  reach(name, Use::forward);
}

void ParameterGatherer::after_forward(UnitName name) {
  const auto& buckets = map_.of(name);
  if (!buckets.empty() && resharded(name) && held_[buckets.front()].open_backward == 0)
    let_go(name);
}

void ParameterGatherer::before_recompute(UnitName name) {
  reach(name, Use::recompute);
}

void ParameterGatherer::before_backward(UnitName name) {
  for (const size_t index : map_.of(name))
    ++held_[index].open_backward;
  reach(name, Use::backward);
}

void ParameterGatherer::after_backward(UnitName name) {
  bool free = chunks_[name.chunk].is_layer[name.unit];
  for (const size_t index : map_.of(name)) {
    UnitGathers& held = held_[index];
    --held.open_forward;
    --held.open_backward;
    free = free && held.open_backward == 0 && (resharded(name) || held.open_forward == 0);
  }
  if (free) let_go(name);
}

}  // namespace triplepoint::trainer
