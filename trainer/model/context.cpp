// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/context.h"

#include <bit>

namespace triplepoint::trainer {

ModelContext::ModelContext(const spec::Job& the_job, const ModelGroups& the_groups, Math& the_math,
                           MemoryLedger& ledger)
    : job(the_job),
      share(workload::share_of_rank(the_job)),
      groups(the_groups),
      math(the_math),
      pool(ledger) {}

Norm ModelContext::norm_of(int64_t rows) const {
  return {.rows = rows,
          .width = share.hidden,
          .centered = model().normalization == spec::Normalization::layer_norm};
}

namespace {

/// Sizes that arrays come in: steps of an eighth of their power of two, so that routed rows, which
/// are never twice as many, find an array.
int64_t capacity_for(int64_t count) {
  const int64_t least = std::max<int64_t>(count, 64);
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(least)));
  const int64_t step = std::max<int64_t>(power / 8, 16);
  return (least + step - 1) / step * step;
}

}  // namespace

std::vector<Array>& BufferPool::idle_of(int64_t capacity) {
  const auto found = std::find_if(idle_.begin(), idle_.end(),
                                  [&](const Idle& size) { return size.capacity == capacity; });
  if (found != idle_.end()) return found->arrays;
  idle_.push_back({capacity, {}});
  return idle_.back().arrays;
}

Array BufferPool::take(int64_t count, std::optional<MemoryTerm> term) {
  if (term) ledger_.add(*term, bytes_of(count));
  const int64_t capacity = capacity_for(count);
  std::vector<Array>& idle = idle_of(capacity);
  if (idle.empty()) return new_array(capacity);
  Array array = std::move(idle.back());
  idle.pop_back();
  return array;
}

void BufferPool::give(Array array, int64_t count, std::optional<MemoryTerm> term) {
  if (term) ledger_.release(*term, bytes_of(count));
  idle_of(capacity_for(count)).push_back(std::move(array));
}

}  // namespace triplepoint::trainer
