// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/units.h"

#include "triplepoint/spec/job.h"

namespace triplepoint::workload {

/// Flops of one step over all ranks, as utilization is reported.
///
/// model_flops, the numerator of MFU:
///   per token and layer, forward:  2 (matrix parameters used by one token) + 4 s a d
///   and 2 h V for the logits; training counts three times that (two where the base is frozen)
/// For GPT this is 72 B s l h^2 (1 + s/6h + V/12lh). Attention counts in full, although causal
/// kernels do half; experts count top-k of them, whatever capacity or padding adds; the embedding
/// lookup, norms and optimizer count nothing. A window of w tokens counts 8 a d (w - w (w-1) / 2 s)
/// in the place of 4 s a d; so do the k keys of sparse attention, whose indexer adds 2 H D s, and
/// backward 2 2 H D of twice the mean of min(k, p); a state-space layer of inner width I its
/// matrices and 7 I N; each depth of multi-token prediction a layer, 4 h^2 and the logits again. V
/// is the padded vocabulary without tensor parallelism.
///
/// Of a job that states its records, padding counts nothing, and s is sum l^2 / sum l over records
/// of l tokens.
///
/// hardware_flops, of HFU: the same of the rows as they are computed, padding included, and what
/// recompute repeats: forward of the layers that are recomputed, or their attention cores.
/// Holds for any layout; a decoding step counts one token per sequence.
/// Sources: Narayanan et al. SC'21, appendix; Korthikanti et al. 2022, section 6 and appendix A;
/// Chowdhery et al. 2022 (PaLM), appendix B.
///
/// core: of model, what scores and values of the layers take; not of multi-token prediction.
struct StepFlops {
  Flops model, hardware, core;
};
StepFlops count_step_flops(const spec::Job& job);

/// Tokens of the global batch that count, without padding: gbs * s, or of the job's records
/// (record_rows.h); gbs where one token is decoded for each sequence.
int64_t tokens_per_step(const spec::Job& job);

/// Records of the global batch: gbs, times the records that a packed row holds.
int64_t records_per_step(const spec::Job& job);

}  // namespace triplepoint::workload
