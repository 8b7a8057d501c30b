// SPDX-License-Identifier: Apache-2.0
// Thread blocks, warps and occupancy of kernels over configurations: the study page's charts, with
// their colours in the file.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "triplepoint/report/charts/launch_charts.h"
#include "triplepoint/report/figures/paper_figures.h"

namespace triplepoint::report {
namespace {

constexpr double left = 16, gap = 28, top = 66, heading_height = 44;
constexpr double character = 5.8;  // mean width of one in legends

/// The classes of charts.css that the drawings use, on white.
std::string style_sheet() {
  std::string css = fmt::format(
      ".label{{text-anchor:end}}.tick,.unit{{text-anchor:middle;fill:{0}}}.value{{fill:{0}}}"
      ".status{{fill:{1};font-weight:600}}.grid,.rule{{stroke:{2};stroke-width:.7}}"
      ".ringed{{stroke:#fff;stroke-width:1}}.cut{{fill:#fff}}.mean{{fill:{2}}}",
      ink::soft, ink::vermilion, ink::pale);
  for (const LaunchClass& of : launch_classes())
    css += fmt::format(".{}{{fill:{}}}", of.style, of.ink);
  return css;
}

/// What the job above has not said: "TP8-PP4", "+ recompute", "mbs 2".
std::string label_below(const PaperJob& job, const PaperJob* above) {
  const bool new_layout = above == nullptr || above->layout != job.layout;
  const bool new_variant = new_layout || above->variant != job.variant;
  constexpr std::size_t longest = 24;
  std::string label = new_layout ? job.layout : "";
  if (label.size() > longest) label = label.substr(0, longest - 1) + "…";
  if (new_variant && !job.variant.empty() && job.variant != "base")
    label += (new_layout ? " + " : "+ ") + job.variant;
  if (job.microbatch != 1 || !new_variant || label.empty())
    label += fmt::format("{}mbs {}", label.empty() ? "" : " ", job.microbatch);
  return label;
}

std::vector<LaunchRow> rows_of(const PaperJobs& jobs) {
  std::vector<LaunchRow> rows;
  const PaperJob* above = nullptr;
  for (const PaperJob* job : jobs) {
    LaunchRow row{
        .bar = {.label = label_below(*job, above), .parts = {}, .peak = {}},
        .full_label = fmt::format("{} {} mbs{}", job->layout, job->variant, job->microbatch),
        .style = "mean",
        .launches = &job->metrics.launches};
    row.bar.begins_group = above != nullptr && above->layout != job->layout;
    if (!job->fits_memory) row.bar.status = "out of memory";
    rows.push_back(std::move(row));
    above = job;
  }
  return rows;
}

bool knows_launches(const PaperJob& job) {
  const auto total = job.metrics.launches.find("total");
  return total != job.metrics.launches.end() && (total->second.blocks || total->second.occupancy);
}

std::string why_unknown(const PaperJob& job) {
  if (!job.fits_memory) return "out of memory";
  if (job.kernels.empty()) return "without profiler traces";
  return job.metrics.launches.empty() ? "without grids of kernels in the traces"
                                      : "without the grids of some kernels in the traces";
}

void draw_legend(SvgSheet& sheet, const std::vector<LaunchRow>& rows, double y) {
  double x = left;
  for (const LaunchClass& of : classes_in(rows)) {
    sheet.rect(x, y - 9, 10, 10, of.ink);
    sheet.text(x + 14, y, of.name, {.size = 10.5});
    x += 30 + character * static_cast<double>(of.name.size());
  }
}

void add_numbers(std::vector<FigureNumber>& numbers, const PaperJob& job, const LaunchRow& row) {
  if (!job.fits_memory) {
    numbers.push_back({.job = &job, .quantity = out_of_memory_quantity, .value = 1});
    return;
  }
  for (const LaunchMeasure& measure : launch_measures())
    for (const auto& [label, launches] : job.metrics.launches)
      if (const auto value = launch_number(row, label, measure))
        numbers.push_back({.job = &job,
                           .quantity = fmt::format("{}_{}", measure.quantity, label),
                           .value = *value});
}

/// The three charts of a group, side by side; returns where they end.
double draw_group(SvgSheet& sheet, const std::string& title, const std::vector<LaunchRow>& rows,
                  double y, double& right) {
  sheet.text(left, y + 12, title, {.size = 12.5, .bold = true});
  double x = left, height = 0;
  for (const LaunchMeasure& measure : launch_measures()) {
    const ChartDrawing chart = bar_chart_drawing(launch_chart(measure, rows));
    sheet.text(x, y + 32, measure.name, {.size = 11.5});
    sheet.part(x, y + heading_height, chart.body);
    x += chart.width + gap;
    height = std::max(height, chart.height);
  }
  right = x - gap + left;
  return y + heading_height + height + gap / 2;
}

}  // namespace

Result<PaperFigure> launches_figure(const std::vector<PaperJob>& all, const FigureChoice& choice) {
  const PaperJobs chosen = TPT_TRY(jobs_of_launches(all, choice));
  PaperJobs drawn = chosen;
  std::erase_if(drawn,
                [](const PaperJob* job) { return job->fits_memory && !knows_launches(*job); });
  if (std::ranges::none_of(drawn, [](const PaperJob* job) { return job->fits_memory; }))
    return error(
        "no run knows the thread blocks of its kernels (this figure counts them); simulate, or "
        "record with profiler traces, which tell grids");
  PaperFigure figure;
  SvgSheet sheet;
  const std::string title =
      "Thread blocks, warps and occupancy by class of kernels" + machine_text(drawn);
  sheet.style(style_sheet());
  sheet.text(left, 20, title, {.size = 14, .bold = true});
  draw_legend(sheet, rows_of(drawn), 42);
  double y = top, right = 0;
  for (const PaperGroup& group : groups_by_model(drawn)) {
    const std::vector<LaunchRow> rows = rows_of(group.jobs);
    y = draw_group(sheet, group.title, rows, y, right);
    for (std::size_t i = 0; i < rows.size(); ++i)
      add_numbers(figure.numbers, *group.jobs[i], rows[i]);
  }
  sheet.text(left, y + 4,
             "Of one GPU in a step, mean over the traced ranks. Occupancy: the bar is the mean "
             "over all kernels, weighted by time; each dot is a class.",
             {.size = 10.5, .colour = ink::soft});
  figure.svg = sheet.svg(right, y + 18, title);
  figure.left_out = left_out_text(all, chosen, figure.numbers, why_unknown);
  return figure;
}

}  // namespace triplepoint::report
