// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/parameter_gatherer.h"

#include <algorithm>

#include "triplepoint/base/expect.h"

#include "trainer/runtime/wire.h"

namespace triplepoint::trainer {

ParameterGatherer::ParameterGatherer(const spec::Job& job, std::vector<Bucket>& buckets,
                                     std::vector<Chunk> chunks, Math& math, MemoryLedger& ledger)
    : job_(job),
      buckets_(buckets),
      map_(buckets),
      chunks_(std::move(chunks)),
      math_(math),
      ledger_(ledger),
      wire_(parameter_wire(job)),
      held_(buckets.size()) {
  for (size_t i = 0; i < buckets_.size(); ++i)
    if (alone(buckets_[i])) bind(i);
}

/// One copy of an unsharded bucket, in the precision of the computation: used as it is.
bool ParameterGatherer::alone(const Bucket& bucket) const {
  return bucket.shard == nullptr && wire_ == Wire::fp32;
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
    const bool recomputed = chunks_[chunk].is_recomputed[unit];
    if (recomputed) sequence_.push_back({{chunk, unit}, Use::recompute});
    if (!recomputed || job_.stack.fsdp_regathers_on_recompute)
      sequence_.push_back({{chunk, unit}, Use::backward});
  }
  started_ = reached_ = 0;
}

void ParameterGatherer::start(size_t index) {
  Bucket& bucket = buckets_[index];
  if (alone(bucket)) return;
  Gather gather;
  gather.whole = FlatArray(ledger_, MemoryTerm::buffers, bucket.count, Storage::value);
  std::span<const float> mine = bucket.owned_value.all();
  if (wire_ == Wire::bf16) {
    gather.mine = FlatArray(ledger_, MemoryTerm::buffers, bucket.owned(), Storage::value);
    math_.copy(bucket.owned(), mine.data(), gather.mine.all().data());
    math_.round(bucket.owned(), gather.mine.all().data());
    mine = gather.mine.all();
  }
  if (bucket.shard != nullptr)
    gather.pending = bucket.shard->all_gather(mine, gather.whole.all(), wire_);
  else
    math_.copy(bucket.count, mine.data(), gather.whole.all().data());
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
    piece.parameter->value = whole.empty()
                                 ? whole
                                 : whole.subspan(static_cast<size_t>(piece.begin),
                                                 static_cast<size_t>(piece.end - piece.begin));
}

void ParameterGatherer::reach(UnitName name, Use use) {
  if (reached_ == sequence_.size() || !(sequence_[reached_].name == name) ||
      sequence_[reached_].use != use)
    return;  // still whole
  const auto ahead = static_cast<size_t>(std::max<int64_t>(0, job_.plan.prefetch_depth));
  while (started_ < sequence_.size() && started_ <= reached_ + ahead)
    start(sequence_[started_++]);
  ++reached_;
  for (const size_t index : map_.of(name)) {
    UnitGathers& held = held_[index];
    if (held.coming.empty()) continue;
    held.coming.front().pending.wait();
    held.now = std::move(held.coming.front());
    held.coming.pop_front();
    held.now.mine = FlatArray();
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
