// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/context.h"

namespace triplepoint::trainer {

ModelContext::ModelContext(const spec::Job& the_job, Communicator& the_tensor_group, Math& the_math,
                           MemoryLedger& the_ledger)
    : job(the_job),
      share(workload::share_of_rank(the_job)),
      tensor(the_tensor_group),
      math(the_math),
      ledger(the_ledger) {}

Norm ModelContext::norm_of(int64_t rows) const {
  return {.rows = rows,
          .width = share.hidden,
          .centered = model().normalization == spec::Normalization::layer_norm};
}

}  // namespace triplepoint::trainer
