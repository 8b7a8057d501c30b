// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"
#include "triplepoint/spec/toml_tree.h"

#include "triplepoint/calibrate/tables/scores.h"
#include "triplepoint/learn/calibration.h"

namespace triplepoint::calibrate {

/// What was measured of a job; units in the names. `convention`: how TFLOP/s and MFU count.
struct Measurement {
  std::optional<double> step_time_s, tokens_per_s_per_gpu, tokens_per_s_total, seqs_per_s_total;
  std::optional<double> tflops_per_gpu, mfu_pct;
  std::optional<double> memory_gib, standing_gib, reserved_gib;
  bool memory_is_reserved = false;  // by the allocator; otherwise held by tensors
  bool ran = true;                  // false: out of memory
  std::string convention;
};

/// One line of a jobs.csv: a job as a tree of the keys of a job file, and what was measured of it.
struct JobRow {
  std::string row_id, family, sweep;
  std::vector<std::string> assumptions;
  Measurement measured;
  spec::TomlValue tree;
  bool chooses_recompute = false, chooses_micro_batch = false;  // written as "auto"
  std::string text;   // of all cells of the job: rows with equal texts are one job
  std::string fault;  // why the row cannot be predicted; empty: it can
};

/// The lines of a jobs.csv. Columns: docs/formats.md. A column that is neither a key of a job file,
/// nor a measurement, nor a note is an error of the table; a wrong cell is the fault of its row.
/// `more`: columns of measurements that the caller reads itself.
Result<std::vector<JobRow>> read_job_rows(const CsvTable&,
                                          std::span<const std::string_view> more = {});

/// An error with all that diagnose() finds wrong.
Result<void> require_runnable(const spec::Job&);

/// The row's job, as the reader of job files reads it, with recompute and microbatches chosen where
/// the row says "auto"; each choice is added to `notes`. Fails with all that diagnose() finds.
Result<spec::Job> job_of(const JobRow&, const std::string& file, const spec::Library&,
                         std::vector<std::string>& notes);

/// Sets the least recomputation with which the job fits in memory, and says what it is:
///
///   none; attention scores, where attention keeps them; parts of every layer, one more at a time
///   and from cheap to dear; the fewest layers of each chunk; all layers; all parameters sharded
///   and again from the start, where replicas and a single stage allow it
///
/// Parts are taken in the order of the time that a byte saved costs: norms and the activation of
/// experts read and write once; latent attention's up-projections are thin products that keep three
/// wide results; shared experts and dense MLPs of a mixture of experts are a small part of its
/// work. A dense model's MLP and routed experts free no more per second than whole layers do. If
/// nothing fits, all layers are recomputed. All else of the plan must be set.
std::string choose_recompute(spec::Job&);

/// Sets the largest power of two up to 64 that divides the batch of a replica and fits in memory
/// with the plan's recompute; 1 if none fits.
std::string choose_micro_batch(spec::Job&);

}  // namespace triplepoint::calibrate
