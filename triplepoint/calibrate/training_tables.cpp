// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/training_tables.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include <fmt/format.h>

#include "triplepoint/base/parallel.h"

#include "triplepoint/calibrate/predict_job.h"
#include "triplepoint/calibrate/table_cells.h"
#include "triplepoint/calibrate/training_quantity.h"

namespace triplepoint::calibrate {
namespace {

/// What became of one row; rows are put together in their order afterwards.
struct Outcome {
  std::vector<ScoredRow> scored;
  std::optional<SkippedRow> skipped;
  bool fits = true;
};

ScoredRow scored_row(const TriedRow& tried, const Quantity& quantity,
                     const std::vector<std::string>& notes) {
  return {.row_id = tried.row.row_id,
          .family = tried.row.family,
          .quantity = quantity.name,
          .sweep = tried.sweep,
          .measured = quantity.measured,
          .predicted = quantity.predicted,
          .notes = notes};
}

/// torchtitan and nanotron print what the allocator holds, the others what tensors hold.
double printed_memory_gib(const TrainingRow& row, const JobPrediction& prediction) {
  const bool holds = row.framework.find("torchtitan") != std::string::npos;
  return (holds ? prediction.reserved_peak : prediction.allocated_peak) / unit::GiB;
}

void score_memory(const TriedRow& tried, const JobPrediction& prediction,
                  const std::vector<std::string>& notes, std::vector<ScoredRow>& scored) {
  const auto add = [&](const char* name, std::optional<double> measured, double predicted) {
    if (!measured) return;
    ScoredRow row = scored_row(tried, {name, *measured, predicted}, notes);
    row.sweep.clear();
    scored.push_back(std::move(row));
  };
  add("mem_gib", tried.row.memory_gib, printed_memory_gib(tried.row, prediction));
  add("mem_standing_gib", tried.standing_gib, prediction.first_step / unit::GiB);
  add("mem_reserved_gib", tried.reserved_gib, prediction.first_reserved / unit::GiB);
}

Outcome skip(const TriedRow& tried, std::string reason) {
  Outcome outcome;
  outcome.skipped = SkippedRow{tried.row.row_id, std::move(reason)};
  return outcome;
}

Outcome score_row(const TriedRow& tried, const spec::Library& library, const JobChange& change) {
  Result<ResolvedRow> resolved = resolve(tried.row, library);
  if (!resolved) return skip(tried, resolved.error().what);
  spec::Job& job = resolved->job;
  if (change) change(job);
  if (tried.ran && !measured_step_time(tried.row, job) && !tried.row.memory_gib)
    return skip(tried,
                "nothing that was measured can be compared (neither a time, a rate, TFLOP/s "
                "by a known convention, nor memory)");
  const Result<JobPrediction> prediction = predict_job(job);
  if (!prediction) return skip(tried, prediction.error().what);
  Outcome outcome;
  outcome.fits = prediction->fits;
  if (!tried.ran) return outcome;
  std::vector<std::string> notes = resolved->assumptions;
  if (!outcome.fits) notes.insert(notes.begin(), "does not fit in memory by our estimate");
  if (auto quantity = speed_quantity(tried.row, job, prediction->step_time)) {
    if (!outcome.fits) quantity->predicted = 0;
    outcome.scored.push_back(scored_row(tried, *quantity, notes));
  }
  score_memory(tried, *prediction, notes, outcome.scored);
  return outcome;
}

void count_verdict(const TriedRow& tried, const Outcome& outcome, FitVerdicts& fit) {
  const std::string& id = tried.row.row_id;
  if (outcome.skipped) return;
  if (tried.ran && outcome.fits) ++fit.ran_and_fits;
  if (tried.ran && !outcome.fits) fit.false_oom.push_back(id);
  if (!tried.ran && outcome.fits) fit.false_fit.push_back(id);
  if (!tried.ran && !outcome.fits) ++fit.failed_and_does_not_fit;
}

/// Rows of one software that differ in layout, batch, precision and scale only, so that one may ask
/// which is fastest.
std::string sweep_of(const TrainingRow& row) {
  return fmt::format("{} {} {} {} {}", row.family, row.framework, row.model, row.gpu, row.workload);
}

/// Ranks of a layout; what no machine has is as good as any other such number.
int64_t product_of_sizes(std::initializer_list<int64_t> sizes) {
  constexpr double most = 1e15;
  double product = 1;
  for (const int64_t size : sizes)
    product *= static_cast<double>(size);
  return static_cast<int64_t>(std::clamp(product, -most, most));
}

TriedRow vtrain_row(const Cells& cells) {
  TriedRow tried;
  TrainingRow& row = tried.row;
  row.row_id = cells.id();
  row.family = cells.has("family") ? cells.text("family") : "vtrain";
  row.gpu = cells.has("gpu") ? cells.text("gpu") : "A100-SXM-80GB";
  row.model = "GPT";
  row.precision = "FP16";
  row.framework = "Megatron-DeepSpeed";
  row.workload = "pretrain";
  row.vocabulary = 51200;
  row.hidden = cells.count("hidden");
  row.heads = cells.count("heads");
  row.layers = cells.count("layers");
  row.sequence = cells.count("seq");
  row.global_batch = cells.count("gbs");
  row.micro_batch = cells.count("mbs");
  row.tensor = cells.count("tp");
  row.pipeline = cells.count("pp");
  row.data = cells.count("dp");
  row.gpus = product_of_sizes({*row.tensor, *row.pipeline, *row.data});
  row.step_time_s = cells.number("step_time_s");
  tried.sweep = fmt::format("{} hidden {} layers {} GPUs {} batch {}", row.family, *row.hidden,
                            *row.layers, *row.gpus, *row.global_batch);
  return tried;
}

TriedRow hf_row(const Cells& cells, std::size_t index) {
  TriedRow tried;
  TrainingRow& row = tried.row;
  row.row_id = fmt::format("{}#{}", cells.text("name"), index + 1);
  row.family = "hf-sweep " + cells.text("num_params") + "B";
  row.gpu = "H100-SXM-80GB";
  row.gpu_note = "EFA 3200 Gbps inter-node";
  row.model = "nanotron " + cells.text("num_params") + "B";
  row.precision = "BF16";
  // The sweep was gone on with after a repair of its pipeline; the later runs spend more host time.
  row.framework = cells.text("after_pp_fix") == "True" ? "nanotron after the repair" : "nanotron";
  row.workload = "pretrain";
  row.recompute = "none";
  row.sharding = "zero_stage=" + cells.text("zero_stage");
  row.extra = cells.text("name").find("tpmodeALL") != std::string::npos ? "tp_mode=ALL_REDUCE"
                                                                        : "tp_mode=REDUCE_SCATTER";
  row.vocabulary = cells.count("vocab_size");
  row.hidden = cells.count("hidden_size");
  row.heads = cells.count("num_heads");
  row.ffn = cells.count("interm_dim");
  row.layers = cells.count("num_layers");
  row.sequence = cells.count("seq_len");
  row.micro_batch = cells.count("mbs");
  row.tensor = cells.count("tp");
  row.pipeline = cells.count("pp");
  row.data = cells.count("dp");
  row.gpus = product_of_sizes({*row.tensor, *row.pipeline, *row.data});
  row.global_batch = product_of_sizes({*row.micro_batch, *row.data, cells.count("batch_accum")});
  row.tokens_per_s_per_gpu = cells.number("tok/s/gpu");
  tried.standing_gib = cells.number("Mem Alloc (GB)");
  tried.reserved_gib = cells.number("Mem Res (GB)");
  tried.ran = cells.text("status") != "OOM";
  tried.sweep = fmt::format("{} on {} GPUs", row.family, *row.gpus);
  return tried;
}

/// Counts of these columns are positive and small, so that their products are whole numbers, too.
Result<void> require_counts(const CsvTable& table, std::initializer_list<const char*> titles) {
  for (const char* title : titles) {
    const std::size_t column = TPT_TRY(table.require_column(title));
    for (std::size_t r = 0; r < table.rows(); ++r) {
      const std::optional<double> value = TPT_TRY(table.number(r, column));
      if (value && *value >= 1 && *value <= 1e7 && std::floor(*value) == *value) continue;
      return error(
          fmt::format("{}:{}: {} is no count (a whole number from 1 on is expected); "
                      "correct the row",
                      table.name(), table.line(r), title));
    }
  }
  return {};
}

}  // namespace

std::vector<TriedRow> tried_rows(std::vector<TrainingRow> rows) {
  std::vector<TriedRow> tried;
  for (TrainingRow& row : rows) {
    TriedRow next;
    next.sweep = sweep_of(row);
    next.row = std::move(row);
    tried.push_back(std::move(next));
  }
  return tried;
}

TableScores score_rows(const std::vector<TriedRow>& rows, const ScoreContext& context,
                       const JobChange& change) {
  std::vector<Outcome> outcomes(rows.size());
  if (context.begin) context.begin(rows.size());
  parallel_for(rows.size(), context.threads, [&](std::size_t i) {
    outcomes[i] = score_row(rows[i], context.library, change);
    if (context.advance) context.advance();
  });
  TableScores scores;
  scores.rows = static_cast<int64_t>(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Outcome& outcome = outcomes[i];
    count_verdict(rows[i], outcome, scores.fit);
    if (outcome.skipped) scores.skipped.push_back(std::move(*outcome.skipped));
    for (ScoredRow& row : outcome.scored)
      scores.scored.push_back(std::move(row));
  }
  return scores;
}

Result<TableScores> score_training_table(const CsvTable& table, const ScoreContext& context) {
  std::vector<TrainingRow> rows = TPT_TRY(read_training_rows(table));
  TableScores scores = score_rows(tried_rows(std::move(rows)), context);
  scores.table = "training";
  return scores;
}

Result<TableScores> score_vtrain_table(const CsvTable& table, const ScoreContext& context) {
  const auto counted =
      require_counts(table, {"hidden", "heads", "layers", "seq", "gbs", "mbs", "tp", "dp", "pp"});
  if (!counted) return tl::unexpected(counted.error());
  std::vector<TriedRow> tried;
  for (std::size_t r = 0; r < table.rows(); ++r)
    tried.push_back(vtrain_row(Cells(table, r)));
  TableScores scores = score_rows(tried, context);
  scores.table = "vtrain";
  return scores;
}

Result<TableScores> score_hf_sweep(const CsvTable& table, const ScoreContext& context) {
  const auto counted =
      require_counts(table, {"seq_len", "mbs", "batch_accum", "dp", "pp", "tp", "hidden_size",
                             "num_layers", "num_heads", "interm_dim", "vocab_size"});
  if (!counted) return tl::unexpected(counted.error());
  std::vector<TriedRow> tried;
  for (std::size_t r = 0; r < table.rows(); ++r)
    tried.push_back(hf_row(Cells(table, r), r));
  TableScores scores = score_rows(tried, context);
  scores.table = "hf-sweep";
  return scores;
}

}  // namespace triplepoint::calibrate
