// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/training_row.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/calibrate/table_cells.h"

namespace triplepoint::calibrate {
namespace {

constexpr std::array counts = {"n_gpus", "layers", "hidden", "heads", "ffn", "vocab", "seq", "gbs",
                               "mbs",    "tp",     "pp",     "vp",    "cp",  "ep",    "dp"};
constexpr std::array amounts = {"step_time_s",
                                "tokens_per_s_per_gpu",
                                "tokens_per_s_total",
                                "seqs_per_s_total",
                                "tflops_per_gpu",
                                "mfu_pct",
                                "hfu_pct",
                                "mem_gib"};

bool is_blank(std::string_view cell) {
  constexpr std::array nothing = {"", "null", "None", "none", "-", "n/a", "N/A", "NA"};
  return std::find(nothing.begin(), nothing.end(), cell) != nothing.end();
}

/// Counts are whole numbers, amounts are numbers; "null" and nothing are not there.
Result<void> check_numbers(const CsvTable& table, size_t row) {
  const auto check = [&](std::string_view title, bool whole) -> Result<void> {
    const auto column = table.column(title);
    if (!column || is_blank(table.at(row, *column))) return {};
    const std::optional<double> number = TPT_TRY(table.number(row, *column));
    if (*number >= 0 && *number < 1e15 && (!whole || *number == std::floor(*number))) return {};
    return error(fmt::format("{}:{}: {} is {} (a {}number is expected); correct the row",
                             table.name(), table.line(row), title, *number,
                             whole ? "whole, positive " : "positive "));
  };
  for (const char* title : counts)
    if (auto checked = check(title, true); !checked) return checked;
  for (const char* title : amounts)
    if (auto checked = check(title, false); !checked) return checked;
  return {};
}

class TrainingCells : public Cells {
 public:
  using Cells::Cells;
  /// Nothing that is no count: tables write 0 where a thing does not apply.
  std::optional<int64_t> whole(std::string_view title) const {
    const std::optional<double> value = number(title);
    if (!value || !(*value >= 1 && *value < 1e15)) return std::nullopt;
    return static_cast<int64_t>(*value);
  }
};

void read_words(const TrainingCells& cells, TrainingRow& row) {
  row.row_id = cells.id();
  row.family = cells.text("family");
  row.gpu = cells.text("gpu");
  row.title = cells.text("source_title");
  row.source = cells.text("source_loc");
  row.gpu_note = cells.text("gpu_note");
  row.model = cells.text("model");
  row.precision = cells.text("precision");
  row.sharding = cells.text("dp_sharding");
  row.recompute = cells.text("recompute");
  row.framework = cells.text("framework");
  row.workload = cells.text("workload");
  row.extra = cells.text("extra");
  row.notes = cells.text("notes");
  row.conv = cells.text("conv");
}

void read_counts(const TrainingCells& cells, TrainingRow& row) {
  row.gpus = cells.whole("n_gpus");
  row.layers = cells.whole("layers");
  row.hidden = cells.whole("hidden");
  row.heads = cells.whole("heads");
  row.ffn = cells.whole("ffn");
  row.vocabulary = cells.whole("vocab");
  row.sequence = cells.whole("seq");
  row.global_batch = cells.whole("gbs");
  row.micro_batch = cells.whole("mbs");
  row.tensor = cells.whole("tp");
  row.pipeline = cells.whole("pp");
  row.virtual_pipeline = cells.whole("vp");
  row.context = cells.whole("cp");
  row.expert = cells.whole("ep");
  row.data = cells.whole("dp");
}

void read_measurements(const TrainingCells& cells, TrainingRow& row) {
  row.parameters_b = cells.number("params_b");
  row.step_time_s = cells.number("step_time_s");
  row.tokens_per_s_per_gpu = cells.number("tokens_per_s_per_gpu");
  row.tokens_per_s_total = cells.number("tokens_per_s_total");
  row.seqs_per_s_total = cells.number("seqs_per_s_total");
  row.tflops_per_gpu = cells.number("tflops_per_gpu");
  row.mfu_pct = cells.number("mfu_pct");
  row.hfu_pct = cells.number("hfu_pct");
  row.memory_gib = cells.number("mem_gib");
}

}  // namespace

bool is_training_table(const std::vector<std::string>& header) {
  const auto has = [&](std::string_view title) {
    return std::find(header.begin(), header.end(), title) != header.end();
  };
  return has("row_id") && has("model") && has("n_gpus") && has("framework") && has("step_time_s");
}

Result<std::vector<TrainingRow>> read_training_rows(const CsvTable& table) {
  std::vector<TrainingRow> rows;
  rows.reserve(table.rows());
  for (size_t i = 0; i < table.rows(); ++i) {
    const TrainingCells cells(table, i);
    TrainingRow row;
    if (const auto checked = check_numbers(table, i); !checked) row.fault = checked.error().what;
    read_words(cells, row);
    read_counts(cells, row);
    read_measurements(cells, row);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace triplepoint::calibrate
