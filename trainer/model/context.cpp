// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/context.h"

namespace triplepoint::trainer {

ModelContext::ModelContext(const spec::Job& the_job, Communicator& the_tensor_group, Math& the_math,
                           MemoryLedger& ledger)
    : job(the_job),
      share(workload::share_of_rank(the_job)),
      tensor(the_tensor_group),
      math(the_math),
      pool(ledger) {}

Norm ModelContext::norm_of(int64_t rows) const {
  return {.rows = rows,
          .width = share.hidden,
          .centered = model().normalization == spec::Normalization::layer_norm};
}

Array BufferPool::take(int64_t count, std::optional<MemoryTerm> term) {
  if (term) ledger_.add(*term, bytes_of(count));
  std::vector<Array>& idle = idle_[count];
  if (idle.empty()) return new_array(count);
  Array array = std::move(idle.back());
  idle.pop_back();
  return array;
}

void BufferPool::give(Array array, int64_t count, std::optional<MemoryTerm> term) {
  if (term) ledger_.release(*term, bytes_of(count));
  idle_[count].push_back(std::move(array));
}

}  // namespace triplepoint::trainer
