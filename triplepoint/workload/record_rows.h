// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/spec/job.h"

namespace triplepoint::workload {

/// A row of a microbatch as it is computed, padding included. Of a job that states no records, and
/// of `padded` ones: the sequence length s.
///
///   longest:  M = max of micro_batch_size records, each cut at s and rounded up to a multiple
///             length = E[M] rounded up,  squares = E[M^2],  largest = the largest M
///             P(M <= x) = P(record <= x) ^ micro_batch_size
///   packed:   length = s,  squares = s E[l^2] / E[l]: records attend to themselves alone
///
/// multiple: 16, and what sequence and context parallelism divide by.
/// Rows are those of the mean microbatch: that a stage or a replica waits for one with longer rows
/// is not in the step time.
/// Source: NeMo, nlp/data/language_modeling/megatron/gpt_sft_dataset.py (collate_fn,
/// pad_seq_length_to_mult 16; GPTSFTPackedDataset).
struct RowShape {
  int64_t length = 0;   // tokens
  int64_t largest = 0;  // of any microbatch: what memory has to hold
  double squares = 0;   // sum of the squared lengths of what attends together
};
RowShape row_shape(const spec::Job& job);

/// What counts of a row: records without their padding.
///
///   packed: records in rows of s tokens by first fit, longest first; else one record a row
///
/// Source: NeMo, utils/sequence_packing_utils.py (first_fit_decreasing).
struct RowContent {
  double records = 1, tokens = 0;
  double squares = 0;  // sum of the squared lengths of its records
};
RowContent row_content(const spec::Job& job);

}  // namespace triplepoint::workload
