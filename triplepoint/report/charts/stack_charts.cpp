// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/text.h"

#include "triplepoint/report/charts/measures.h"
#include "triplepoint/report/charts/study_charts.h"

namespace triplepoint::report {
namespace {

/// A bar's tooltip: its largest parts.
std::string hint_of(const std::string& what, const std::vector<NamedPart>& parts,
                    const char* unit) {
  std::string hint = what + ":";
  for (const NamedPart& part : parts)
    if (part.value > 0)
      hint += fmt::format("{} {} {} {}", hint.ends_with(":") ? "" : ",", part.name,
                          significant(part.value), unit);
  return hint;
}

void add_parts(Bar& bar, const std::vector<NamedPart>& parts) {
  for (const NamedPart& part : parts)
    bar.parts.push_back({part.value, part.style, ""});
}

/// `first`, those of kernels, `last`.
DataTable kernel_table(std::vector<TextColumn> columns, std::vector<TextColumn> last) {
  for (const NamedPart& part : kernel_parts({}))
    columns.push_back({part.name + " (s)"});
  columns.insert(columns.end(), {{"of it waiting (s)"}, {"total (s)"}});
  columns.insert(columns.end(), last.begin(), last.end());
  return text_table(std::move(columns));
}

std::vector<DataCell> kernel_cells(std::vector<DataCell> cells,
                                   const metrics::KernelSeconds& kernels,
                                   std::vector<DataCell> last) {
  for (const NamedPart& part : kernel_parts(kernels))
    cells.push_back(significant(part.value));
  cells.push_back(significant(kernels.waiting / unit::s));
  cells.push_back(significant(kernels.total() / unit::s));
  std::ranges::move(last, std::back_inserter(cells));
  return cells;
}

bool has_kernels(const StudyRow& row) {
  return row.metrics && row.metrics->kernels.total() > Seconds();
}

/// Kernels of a job, and the time in which none runs since the host launches none.
std::vector<NamedPart> step_parts(const metrics::Metrics& m) {
  std::vector<NamedPart> parts = kernel_parts(m.kernels);
  parts.push_back({"gaps between kernels", "t-next", m.parts ? m.parts->gaps / unit::s : 0});
  return parts;
}

std::vector<LegendEntry> kernel_legend() {
  return legend_of(kernel_parts({}));
}
std::vector<LegendEntry> memory_legend() {
  return legend_of(memory_parts({}));
}

void fill_kernels(const StudyRow& row, Bar& bar) {
  if (!row.metrics) return;
  if (!has_kernels(row)) {
    bar.status = "no timeline";
    return;
  }
  const std::vector<NamedPart> parts = step_parts(*row.metrics);
  add_parts(bar, parts);
  bar.text = significant(row.metrics->kernels.total() / unit::s);
  bar.hint = hint_of(full_label(row), parts, "s");
}

std::string kernel_title(const Group& group) {
  const StudyRow* least = nullptr;
  for (const StudyRow* row : group.rows)
    if (has_kernels(*row) &&
        (least == nullptr || row->metrics->kernels.total() < least->metrics->kernels.total()))
      least = row;
  if (least == nullptr) return "Where kernel time goes: not known";
  const metrics::KernelSeconds& kernels = least->metrics->kernels;
  return fmt::format("Kernel time: least in {} ({} s, of which {} compute)", full_label(*least),
                     significant(kernels.total() / unit::s),
                     percent(kernels.compute / kernels.total()));
}

// ---- by stage

/// Of each layout the job that ran with fewest options and the smallest microbatch.
std::vector<const StudyRow*> one_per_layout(const Group& group) {
  std::vector<const StudyRow*> chosen;
  for (const StudyRow* row : group.that_ran()) {
    if (row->metrics->stages.size() < 2) continue;
    if (chosen.empty() || layout_label(*chosen.back()) != layout_label(*row)) chosen.push_back(row);
  }
  return chosen;
}

struct StageImbalance {
  const StudyRow* row = nullptr;
  int32_t stage = 0;
  double more = 0;  // computing than the mean stage
};

/// The stage that computes most against its job's mean.
StageImbalance most_uneven(const std::vector<const StudyRow*>& rows) {
  StageImbalance most;
  for (const StudyRow* row : rows) {
    double mean = 0;
    for (const metrics::Stage& stage : row->metrics->stages)
      mean += stage.kernels.compute / unit::s / as_real(row->metrics->stages.size());
    for (const metrics::Stage& stage : row->metrics->stages)
      if (mean > 0 && stage.kernels.compute / unit::s / mean - 1 > most.more)
        most = {row, stage.stage, stage.kernels.compute / unit::s / mean - 1};
  }
  return most;
}

std::string stage_title(const std::vector<const StudyRow*>& rows) {
  const StageImbalance most = most_uneven(rows);
  if (most.row == nullptr) return "By pipeline stage: all stages compute alike";
  return fmt::format("By pipeline stage: stage {} of {} computes {} more than the mean stage",
                     most.stage, full_label(*most.row), percent(most.more));
}

Bar stage_bar(const StudyRow& row, const metrics::Stage& stage) {
  Bar bar;
  bar.job = row.name;
  bar.begins_group = &stage == &row.metrics->stages.front();
  bar.label = bar.begins_group ? layout_label(row) + " stage 0" : std::to_string(stage.stage);
  const std::vector<NamedPart> parts = kernel_parts(stage.kernels);
  add_parts(bar, parts);
  bar.text = significant(stage.kernels.total() / unit::s);
  bar.hint = fmt::format("{}, stage {}: {} s, computing {} s", full_label(row), stage.stage,
                         bar.text, significant(stage.kernels.compute / unit::s));
  return bar;
}

std::vector<DataCell> stage_cells(const StudyRow& row, const metrics::Stage& stage) {
  return kernel_cells({full_label(row), std::to_string(stage.stage)}, stage.kernels,
                      {significant(stage.power_mean_w), significant(stage.die_mean_c),
                       significant(stage.sm_clock_mean_mhz, 4)});
}

// ---- memory

void fill_memory(const StudyRow& row, Bar& bar) {
  const auto stage = worst_stage(row);
  if (!stage) {
    if (bar.status.empty()) bar.status = "not known";
    return;
  }
  const std::vector<NamedPart> parts = memory_parts(row.memory[*stage]);
  const std::string total = significant(row.memory[*stage].total() / unit::GiB);
  add_parts(bar, parts);
  bar.text = total;
  bar.hint = hint_of(full_label(row), parts, "GiB");
  if (row.verdict == Verdict::oom) bar.status = total + " OOM";
}

std::vector<DataCell> memory_cells(const StudyRow& row) {
  const auto stage = worst_stage(row);
  std::vector<DataCell> cells = {full_label(row), std::string(name_of(row.verdict)),
                                 stage ? std::to_string(*stage) : "–"};
  for (const NamedPart& part : memory_parts(stage ? row.memory[*stage] : run::MemoryUse{}))
    cells.push_back(stage ? significant(part.value) : "–");
  cells.push_back(stage ? significant(row.memory[*stage].total() / unit::GiB) : "–");
  return cells;
}

std::string memory_title(const Group& group, const std::optional<double>& limit) {
  std::size_t full = 0, known = 0;
  for (const StudyRow* row : group.rows) {
    full += row->verdict == Verdict::oom ? 1 : 0;
    known += row->memory.empty() ? 0 : 1;
  }
  if (known == 0) return "Memory: not known";
  const std::string where =
      limit ? fmt::format(" in {} GiB", significant(*limit, 4)) : std::string();
  if (full == 0) return fmt::format("Memory: all {} jobs fit{}", known, where);
  return fmt::format("Memory: {} of {} jobs do not fit{}", full, known, where);
}

}  // namespace

Drawing kernel_figure(const Group& group) {
  BarChart chart;
  chart.title = kernel_title(group);
  chart.unit = "kernel seconds of one step, mean over GPUs (s)";
  DataTable table = kernel_table({{"job"}}, {{"gaps between kernels (s)"}});
  chart.bars = job_bars(group, fill_kernels);
  for (const StudyRow* row : group.rows) {
    if (!has_kernels(*row)) continue;
    const auto& parts = row->metrics->parts;
    table.add(kernel_cells({full_label(*row)}, row->metrics->kernels,
                           {parts ? significant(parts->gaps / unit::s) : "–"}),
              row->name);
  }
  return {
      "kernels-" + group.id, chart.title,
      "Waiting for a late peer is inside the collective's kernel, as NCCL shows it; kernels "
      "that overlap count twice. Gaps: the host launches too late. A cut bar is longer than shown.",
      html_legend(legend_of(step_parts({}))) + bar_chart_svg(chart), std::move(table)};
}

std::vector<Drawing> stage_figures(const Group& group) {
  const std::vector<const StudyRow*> rows = one_per_layout(group);
  if (rows.empty()) return {};
  BarChart chart;
  chart.title = stage_title(rows);
  chart.unit = "kernel seconds of one step, mean over the stage's GPUs (s)";
  DataTable table =
      kernel_table({{"job"}, {"stage"}}, {{"power (W)"}, {"die (°C)"}, {"clock (MHz)"}});
  for (const StudyRow* row : rows)
    for (const metrics::Stage& stage : row->metrics->stages) {
      chart.bars.push_back(stage_bar(*row, stage));
      table.add(stage_cells(*row, stage), row->name);
    }
  return {{"stages-" + group.id, chart.title,
           "One job of each layout: the one with fewest options and the smallest microbatch. Early "
           "stages wait longer for gradients; the last stage computes the loss.",
           html_legend(kernel_legend()) + bar_chart_svg(chart), std::move(table)}};
}

Drawing memory_figure(const Group& group) {
  BarChart chart;
  chart.unit = "memory of the fullest GPU (GiB)";
  DataTable table = titled_table({"job", "verdict", "fullest stage"});
  for (const NamedPart& part : memory_parts({}))
    table.columns.push_back({.title = part.name + " (GiB)"});
  table.columns.push_back({.title = "total (GiB)"});
  chart.bars = job_bars(group, fill_memory);
  for (const StudyRow* row : group.rows) {
    if (row->memory_limit) chart.limit = *row->memory_limit / unit::GiB;
    if (!row->memory.empty()) table.add(memory_cells(*row), row->name);
  }
  chart.title = memory_title(group, chart.limit);
  if (chart.limit)
    chart.limit_name = fmt::format("{} GiB of device memory", significant(*chart.limit, 4));
  return {
      .id = "memory-" + group.id,
      .title = chart.title,
      .note = chart.limit ? "Dashed line: " + chart.limit_name + ", as the driver reports it." : "",
      .markup = html_legend(memory_legend()) + bar_chart_svg(chart),
      .table = std::move(table),
      .is_empty = !has_parts(chart)};
}

}  // namespace triplepoint::report
