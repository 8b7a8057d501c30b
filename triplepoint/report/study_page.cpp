// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/study_page.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "triplepoint/base/json.h"

#include "triplepoint/report/configuration_charts.h"
#include "triplepoint/report/findings.h"
#include "triplepoint/report/groups.h"
#include "triplepoint/report/heat_map.h"
#include "triplepoint/report/html.h"
#include "triplepoint/report/labels.h"
#include "triplepoint/report/number_text.h"

namespace triplepoint::report {
namespace {

std::string header(const Study& study) {
  std::map<Verdict, std::size_t> count;
  for (const StudyRow& row : study.rows)
    ++count[row.verdict];
  std::string html =
      "<header><p class=\"kicker\">Triplepoint study</p><h1>" + escape(study.title) + "</h1>";
  if (!study.about.empty()) html += "<p class=\"about\">" + escape(study.about) + "</p>";
  html += fmt::format(
      "<p class=\"facts\"><b>{}</b> jobs: <b>{}</b> ran, <b>{}</b> do not fit in memory, <b>{}</b> "
      "invalid. Simulated by {}; every figure is per step at thermal steady state.</p>",
      study.rows.size(), count[Verdict::ok], count[Verdict::oom], count[Verdict::invalid],
      escape(study.producer));
  return html + "</header>\n";
}

std::string findings_section(const Study& study) {
  std::string html =
      "<section aria-labelledby=\"findings\"><h2 id=\"findings\">What was found</h2><ol "
      "class=\"findings\">";
  for (const Finding& finding : find_findings(study)) {
    html += fmt::format("<li>{} <a href=\"#{}\">See the chart</a></li>", finding.html(),
                        escape(finding.anchor()));
  }
  return html + "</ol></section>\n";
}

// ---- the short answers

/// What takes the largest share of the step besides computing.
std::string what_limits(const metrics::Metrics& m) {
  if (!m.step_time) return "–";
  const double step = *m.step_time / unit::s;
  std::vector<std::pair<double, std::string>> shares;
  if (m.bubble_fraction) shares.emplace_back(*m.bubble_fraction, "pipeline bubble");
  if (m.exposed_communication)
    shares.emplace_back(*m.exposed_communication / unit::s / step, "exposed communication");
  shares.emplace_back(m.kernels.memory / unit::s / step, "norms and elementwise");
  shares.emplace_back(m.kernels.compute / unit::s / step, "compute");
  const auto largest = std::max_element(shares.begin(), shares.end());
  return fmt::format("{} ({} of the step)", largest->second,
                     percent(std::min(1.0, largest->first)));
}

const StudyRow* best_of(const std::vector<const StudyRow*>& rows,
                        double (*value)(const StudyRow&)) {
  const StudyRow* best = nullptr;
  for (const StudyRow* row : rows)
    if (best == nullptr || value(*row) > value(*best)) best = row;
  return best;
}

std::vector<std::string> answer_cells(const Group& group) {
  const std::vector<const StudyRow*> ran = group.that_ran();
  const StudyRow* fast =
      best_of(ran, [](const StudyRow& row) { return row.metrics->tokens_per_second.value_or(0); });
  const StudyRow* thrifty = best_of(
      ran, [](const StudyRow& row) { return -row.metrics->joules_per_token.value_or(1e300); });
  const StudyRow* hot =
      best_of(ran, [](const StudyRow& row) { return row.metrics->temperature_peak_c.value_or(0); });
  if (fast == nullptr) return {group.title, "no job ran", "", "", "", "", ""};
  return {
      group.title,
      short_label(*fast),
      significant(fast->metrics->tokens_per_second),
      short_label(*thrifty),
      significant(thrifty->metrics->joules_per_token),
      what_limits(*fast->metrics),
      fmt::format("{} °C ({})", significant(hot->metrics->temperature_peak_c), short_label(*hot))};
}

std::string answers_section(const std::vector<Group>& groups) {
  DataTable table{{"model and machines", "fastest", "tokens/s", "least energy", "J/token",
                   "largest share of the fastest", "hottest GPU"},
                  {}};
  for (const Group& group : groups)
    table.rows.push_back(answer_cells(group));
  return "<section class=\"answers\" aria-labelledby=\"answers\"><h2 id=\"answers\">The short "
         "answers</h2>" +
         html_table(table, "Best layout of each model on each machine") + "</section>\n";
}

// ---- one group

std::string figures_html(const std::vector<Figure>& figures, const char* style = "figures") {
  std::string html = fmt::format("<div class=\"{}\">", style);
  for (const Figure& figure : figures)
    html += html_figure(figure);
  return html + "</div>";
}

std::string group_section(const Group& group) {
  std::string html =
      fmt::format("<section class=\"group\" id=\"group-{0}\" data-title=\"{1}\"><h2>{1}</h2>",
                  group.id, escape(group.title));
  html += "<h3>Speed, energy, power, temperature, clock</h3>" + html_legend(variant_legend(group)) +
          figures_html(measure_figures(group));
  html += "<h3>Kernel time and memory</h3><div class=\"figures\"><div>" +
          html_legend(kernel_legend()) + html_figure(kernel_figure(group)) + "</div><div>" +
          html_legend(memory_legend()) + html_figure(memory_figure(group)) + "</div></div>";
  const std::vector<Figure> sweep = microbatch_figures(group);
  if (!sweep.empty())
    html += fmt::format("<h3 id=\"microbatch-{}\">Microbatch sweep</h3>", group.id) +
            html_legend(microbatch_legend(group)) + figures_html(sweep, "figures four");
  return html + "</section>\n";
}

std::string groups_section(const std::vector<Group>& groups) {
  std::string html = "<nav class=\"chooser\" aria-label=\"Model and machines\">";
  for (const Group& group : groups) {
    html += fmt::format("<a href=\"#group-{}\">{}</a>", group.id, escape(group.title));
  }
  html += "</nav>\n";
  for (const Group& group : groups)
    html += group_section(group);
  return html;
}

// ---- temperature maps

/// The jobs of one kind of machine, each with a temperature per GPU.
struct Machines {
  std::string title;
  std::vector<const StudyRow*> rows;
};

std::vector<Machines> machines_of(const std::vector<Group>& groups) {
  std::vector<Machines> all;
  for (const Group& group : groups) {
    for (const StudyRow* row : group.that_ran()) {
      if (row->metrics->temperature_per_gpu_c.empty()) continue;
      const std::string label = group_label(row->job);
      const std::string title = label.substr(label.find(" on ") + 4);
      auto machines =
          std::find_if(all.begin(), all.end(), [&](const Machines& m) { return m.title == title; });
      if (machines == all.end()) machines = all.insert(all.end(), {title, {}});
      machines->rows.push_back(row);
    }
  }
  return all;
}

/// Mean over all jobs, device by device: seats show in it.
HeatRow mean_row(const std::vector<HeatRow>& rows) {
  HeatRow mean{"mean of all", rows.front().values};
  for (std::size_t i = 0; i < mean.values.size(); ++i) {
    double sum = 0;
    for (const HeatRow& row : rows)
      sum += i < row.values.size() ? row.values[i] : 0;
    mean.values[i] = sum / static_cast<double>(rows.size());
  }
  return mean;
}

DataTable heat_table(const HeatMap& map) {
  DataTable table{{"job"}, {}};
  for (std::size_t i = 0; i < map.rows.front().values.size(); ++i)
    table.columns.push_back(fmt::format("GPU {}", i));
  for (const HeatRow& row : map.rows) {
    std::vector<std::string> cells = {row.label};
    for (double value : row.values)
      cells.push_back(fmt::format("{:.1f}", value));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::string heat_title(const HeatMap& map) {
  const std::vector<double>& mean = map.rows.front().values;
  const auto [cool, hot] = std::minmax_element(mean.begin(), mean.end());
  return fmt::format("GPU {} is hottest on average ({:.1f} °C), GPU {} coolest ({:.1f} °C)",
                     hot - mean.begin(), *hot, cool - mean.begin(), *cool);
}

Figure heat_figure(const Machines& machines) {
  HeatMap map;
  map.unit = "mean °C";
  map.per_node = machines.rows.front()->gpus_per_node;
  for (const StudyRow* row : machines.rows) {
    const bool plain = row->job.plan.micro_batch_size == 1;
    const std::string variant = variant_label(row->job);
    map.rows.push_back(
        {fmt::format("{} {}{}{}", row->job.model.name, configuration_label(row->job),
                     variant == "base" ? "" : " + " + variant,
                     plain ? "" : fmt::format(" mbs {}", row->job.plan.micro_batch_size)),
         row->metrics->temperature_per_gpu_c});
  }
  map.rows.insert(map.rows.begin(), mean_row(map.rows));
  map.title = heat_title(map);
  return {"heat-" + identifier(machines.title),
          machines.title + ": " + map.title,
          "",
          heat_map_svg(map),
          heat_table(map),
          true};
}

std::string heat_section(const std::vector<Group>& groups) {
  std::string html =
      "<section aria-labelledby=\"temperature\"><h2 id=\"temperature\">Which GPU gets hot</h2>"
      "<p>Mean die temperature of every GPU over a step. Gaps separate nodes; the pattern that "
      "repeats in every node is the chassis: seats behind others breathe warm air.</p><div "
      "class=\"figures\">";
  for (const Machines& machines : machines_of(groups))
    html += html_figure(heat_figure(machines));
  return html + "</div></section>\n";
}

// ---- all jobs

/// Errors in full; of warnings the code, for they did not keep the job from running.
std::string diagnoses_text(const StudyRow& row) {
  std::string text;
  for (const spec::Diagnosis& diagnosis : row.diagnoses) {
    const bool is_error = diagnosis.severity == spec::Diagnosis::Severity::error;
    text += fmt::format("{}{}{}{}", text.empty() ? "" : "; ", spec::name_of(diagnosis.code),
                        is_error ? ": " : "", is_error ? diagnosis.what : "");
  }
  return text;
}

std::vector<std::string> job_cells(const StudyRow& row) {
  const auto of = [&](auto member, int digits) {
    return row.metrics ? significant((*row.metrics).*member, digits) : "";
  };
  using metrics::Metrics;
  const auto stage = worst_stage(row);
  return {
      row.name,
      row.job.model.name,
      row.job.cluster.name,
      short_label(row),
      std::string(name_of(row.verdict)),
      row.metrics && row.metrics->step_time ? significant(*row.metrics->step_time / unit::s) : "",
      of(&Metrics::tokens_per_second, 4),
      of(&Metrics::mfu, 3),
      of(&Metrics::joules_per_token, 3),
      of(&Metrics::power_mean_w, 3),
      of(&Metrics::power_peak_w, 3),
      of(&Metrics::temperature_mean_c, 3),
      of(&Metrics::temperature_peak_c, 3),
      of(&Metrics::sm_clock_mean_mhz, 4),
      stage ? significant(row.memory[*stage].total() / unit::GiB) : "",
      diagnoses_text(row)};
}

std::string jobs_section(const Study& study) {
  DataTable table{{"job", "model", "cluster", "layout", "verdict", "step (s)", "tokens/s", "MFU",
                   "J/token", "mean power (W)", "peak power (W)", "mean temp. (°C)",
                   "peak temp. (°C)", "clock (MHz)", "memory (GiB)", "diagnosis"},
                  {}};
  for (const StudyRow& row : study.rows)
    table.rows.push_back(job_cells(row));
  return "<section aria-labelledby=\"jobs\" class=\"jobs\"><h2 id=\"jobs\">All jobs</h2>"
         "<p class=\"filter\" hidden><label>Show only jobs with <input type=\"search\" "
         "id=\"filter\" placeholder=\"e.g. oom, TP8, mixtral\"></label> <span id=\"filter-count\" "
         "role=\"status\"></span></p>" +
         html_table(table, "Every job of the study with its verdict") + "</section>\n";
}

}  // namespace

std::string study_page(const Study& study) {
  const std::vector<Group> groups = groups_of(study);
  const std::string body = header(study) + findings_section(study) + answers_section(groups) +
                           groups_section(groups) + heat_section(groups) + jobs_section(study);
  return html_page(study.title, body, Json::object());
}

}  // namespace triplepoint::report
