// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/context.h"

namespace triplepoint::trainer {

ModelContext::ModelContext(const spec::Job& the_job, const ModelGroups& the_groups, Math& the_math,
                           MemoryLedger& ledger)
    : job(the_job),
      share(workload::share_of_rank(the_job)),
      groups(the_groups),
      math(the_math),
      pool(ledger),
      wire(the_job.plan.precision == spec::Precision::bf16 ? Wire::bf16 : Wire::fp32) {}

Norm ModelContext::norm_of(int64_t rows) const {
  return {.rows = rows,
          .width = share.hidden,
          .centered = model().normalization == spec::Normalization::layer_norm};
}

int64_t ModelContext::first_token(const Tokens& tokens) const {
  const int64_t first = tokens.first_sample * share.key_length;
  if (!share.sequence_parallel) return first;
  return first + groups.tensor->index() * share.sharded_tokens;
}

Dropout ModelContext::dropout_at(uint64_t site, const Tokens& tokens) const {
  return {.site = site,
          .first_row = first_token(tokens),
          .probability = static_cast<float>(model().dropout)};
}

}  // namespace triplepoint::trainer
