// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/report/charts/measures.h"
#include "triplepoint/report/charts/study_charts.h"

namespace triplepoint::report {
namespace {

std::vector<std::string> kernel_columns() {
  std::vector<std::string> columns;
  for (const NamedPart& part : kernel_parts({}))
    columns.push_back(part.name + " (s)");
  columns.insert(columns.end(), {"of it waiting (s)", "total (s)"});
  return columns;
}

std::vector<std::string> kernel_cells(const metrics::KernelSeconds& kernels) {
  std::vector<std::string> cells;
  for (const NamedPart& part : kernel_parts(kernels))
    cells.push_back(significant(part.value));
  cells.push_back(significant(kernels.waiting / unit::s));
  cells.push_back(significant(kernels.total() / unit::s));
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

Figure kernel_figure(const Group& group) {
  JobChart chart{
      .id = "kernels",
      .bars = {.title = kernel_title(group),
               .unit = "kernel seconds of one step, mean over GPUs (s)"},
      .note =
          "Waiting for a late peer is inside the collective's kernel, as NCCL shows it; kernels "
          "that overlap count twice. Gaps: the host launches too late. A cut bar is longer "
          "than shown.",
      .columns = kernel_columns(),
      .legend = legend_of(step_parts({})),
      .part_unit = "s"};
  chart.columns.emplace_back("gaps between kernels (s)");
  return job_figure(group, std::move(chart), [](const StudyRow& row) -> std::optional<JobBar> {
    if (!has_kernels(row)) return std::nullopt;
    const metrics::Metrics& m = *row.metrics;
    JobBar bar{.parts = step_parts(m),
               .text = significant(m.kernels.total() / unit::s),
               .cells = kernel_cells(m.kernels)};
    bar.cells.push_back(m.parts ? significant(m.parts->gaps / unit::s) : "–");
    return bar;
  });
}

Figure memory_figure(const Group& group) {
  JobChart chart{.id = "memory",
                 .bars = {.title = {}, .unit = "memory of the fullest GPU (GiB)"},
                 .columns = {"verdict", "fullest stage"},
                 .legend = legend_of(memory_parts({})),
                 .part_unit = "GiB"};
  for (const NamedPart& part : memory_parts({}))
    chart.columns.push_back(part.name + " (GiB)");
  chart.columns.emplace_back("total (GiB)");
  for (const StudyRow* row : group.rows)
    if (row->memory_limit) chart.bars.limit = *row->memory_limit / unit::GiB;
  chart.bars.title = memory_title(group, chart.bars.limit);
  if (chart.bars.limit) {
    chart.bars.limit_name =
        fmt::format("{} GiB of device memory", significant(*chart.bars.limit, 4));
    chart.note = "Dashed line: " + chart.bars.limit_name + ", as the driver reports it.";
  }
  return job_figure(group, std::move(chart), [](const StudyRow& row) -> std::optional<JobBar> {
    const auto stage = worst_stage(row);
    if (!stage) return std::nullopt;
    const std::string total = significant(row.memory[*stage].total() / unit::GiB);
    JobBar bar{.parts = memory_parts(row.memory[*stage]),
               .text = total,
               .status = row.verdict == Verdict::oom ? total + " OOM" : "",
               .cells = {std::string(name_of(row.verdict)), std::to_string(*stage)}};
    for (const NamedPart& part : bar.parts)
      bar.cells.push_back(significant(part.value));
    bar.cells.push_back(total);
    return bar;
  });
}

}  // namespace triplepoint::report
