// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"

namespace triplepoint::calibrate {

/// One published training configuration and what was measured of it, as its table prints them.
/// Absent: the source did not say. Columns: docs/formats.md.
struct TrainingRow {
  std::string row_id, family;
  std::string title, source;  // where it was published, and with which configuration file
  std::string gpu, gpu_note, model, precision, sharding, recompute, framework, workload, extra,
      notes;
  std::string conv;   // how its TFLOP/s count, see flops_of_convention()
  std::string fault;  // a cell that is no number; such a row is skipped, and only that
  std::optional<int64_t> gpus, layers, hidden, heads, ffn, vocabulary, sequence;
  std::optional<int64_t> global_batch, micro_batch, tensor, pipeline, virtual_pipeline, context,
      expert, data;

  std::optional<double> parameters_b;  // billions, as printed
  std::optional<double> step_time_s, tokens_per_s_per_gpu, tokens_per_s_total, seqs_per_s_total;
  std::optional<double> tflops_per_gpu, mfu_pct, hfu_pct, memory_gib;
};

/// The rows of a table with the columns of train_perf_calibration.csv; unknown columns are ignored.
Result<std::vector<TrainingRow>> read_training_rows(const CsvTable&);
bool is_training_table(const std::vector<std::string>& header);

/// A row as a job, and in words what had to be assumed for it.
struct ResolvedRow {
  spec::Job job;
  std::vector<std::string> assumptions;
};

/// The job that a row describes. What the row leaves open is filled by written rules
/// (docs/models/validation.md), the same for all rows; each that was used is named.
/// Fails, with the reason, where the row cannot be expressed: an unknown model or GPU, an
/// architecture that is not modelled, or too little said.
Result<ResolvedRow> resolve(const TrainingRow&, const spec::Library&);

/// Depths of multi-token prediction that the row's TFLOP/s over its tokens/s speak of, where it
/// prints both and the job's model has the module; nothing otherwise. Compared are FLOPs a token as
/// Megatron counts them (half the square of attention); more than 2 % off says nothing.
std::optional<int64_t> printed_prediction_depths(const TrainingRow&, const spec::Job&);

/// FLOPs of one training step per GPU as the row's convention counts them; nothing for conventions
/// without a formula. Formulas: docs/models/validation.md.
std::optional<double> step_tflop_of_convention(const TrainingRow&, const spec::Job&);

}  // namespace triplepoint::calibrate
