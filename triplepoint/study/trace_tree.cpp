// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/trace_tree.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/files.h"

#include "triplepoint/study/experiments.h"
#include "triplepoint/trace/kineto/job_traces.h"

namespace triplepoint::study {
namespace {

using metrics::TraceOptions;
using metrics::TraceReport;

struct Experiment {
  std::string name;
  TraceReport report;
  std::string problem;  // why there is no report; empty: there is one
};

/// The experiments of a tree or of several folders; nothing if that is not what the files are.
std::vector<Path> experiments_among(const std::vector<std::string>& files) {
  std::vector<Path> all;
  bool is_tree = false;
  for (const std::string& file : files) {
    std::vector<Path> found = is_folder(file) ? experiments_in(file) : std::vector<Path>();
    if (found.empty()) return {};
    is_tree = is_tree || found.front() != file;
    std::ranges::move(out_of_memory_in(file), std::back_inserter(found));
    std::ranges::move(found, std::back_inserter(all));
  }
  if (!is_tree && all.size() < 2) return {};
  std::sort(all.begin(), all.end());
  return all;
}

bool is_tree(const std::string& file) {
  return is_folder(file) && !is_experiment(file) && !experiments_in(file).empty();
}

tl::unexpected<Error> is_about_one(const TraceOptions& options, const std::string& tree) {
  constexpr std::size_t most = 4;
  std::vector<std::string> names;
  const std::vector<Path> experiments = experiments_in(tree);
  for (const Path& experiment : experiments)
    if (trace::newest_job_traces(experiment)) names.push_back(experiment.string());
  if (names.empty()) names.emplace_back("those with traces (there are none)");
  const bool more = names.size() > most;
  if (more) names.resize(most);
  return error(fmt::format(
      "{}: a result tree of {} experiments (trace {} looks at one timeline); name one "
      "of {}{}, or use trace breakdown or overlap",
      tree, experiments.size(), options.analysis, fmt::join(names, ", "), more ? ", ..." : ""));
}

Experiment analyze(const Path& folder, std::string name, TraceOptions options,
                   TraceAnalysis analysis) {
  Experiment experiment{.name = std::move(name)};
  if (auto why = out_of_memory(folder)) {
    experiment.problem = *std::move(why);
  } else if (!trace::newest_job_traces(folder)) {
    experiment.problem = "no traces";
  } else {
    options.files = {folder.string()};
    Result<TraceReport> report = analysis(options);
    if (report)
      experiment.report = *std::move(report);
    else
      experiment.problem = report.error().what;
  }
  return experiment;
}

const DataTable& table_of(const TraceReport& report, const std::string& name) {
  return *std::find_if(report.tables.begin(), report.tables.end(),
                       [&](const DataTable& table) { return table.name == name; });
}

/// Takes the columns of one more table; a title names the largest of the units.
void take_columns(std::vector<DataColumn>& columns, const std::vector<DataColumn>& more) {
  if (columns.empty()) columns = more;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (more[i].scale > columns[i].scale) columns[i] = more[i];
    columns[i].spread = false;  // ranks of different jobs have none
  }
}

/// Mean over the ranks that have a number.
DataCell mean_of(const DataTable& ranks, std::size_t column) {
  double sum = 0;
  int64_t count = 0;
  for (const std::vector<DataCell>& row : ranks.rows)
    if (const auto number = number_in(row[column])) {
      sum += *number;
      ++count;
    }
  if (count > 0) return sum / static_cast<double>(count);
  if (const auto* none =
          ranks.rows.empty() ? nullptr : std::get_if<Missing>(&ranks.rows[0][column]))
    return *none;
  return Missing{"no rank has one"};
}

/// A row for each experiment, in their order.
DataTable experiment_table(const std::vector<Experiment>& experiments, const DataTable& first) {
  DataTable table{.name = "experiments",
                  .title = first.title.substr(0, first.title.find(", by rank")) +
                           ", by experiment: mean over its traced ranks"};
  std::vector<std::size_t> numbers;  // columns of the ranks' table that have a mean
  for (std::size_t i = 0; i < first.columns.size(); ++i)
    if (first.columns[i].spread) numbers.push_back(i);
  std::vector<DataColumn> columns;
  for (const Experiment& experiment : experiments)
    if (experiment.problem.empty())
      take_columns(columns, table_of(experiment.report, "ranks").columns);
  table.columns = {{"experiment", "experiment"}, {"traced_ranks", "ranks"}};
  for (const std::size_t i : numbers)
    table.columns.push_back(columns[i]);
  for (const Experiment& experiment : experiments) {
    std::vector<DataCell> cells = {experiment.name};
    if (!experiment.problem.empty()) {
      cells.resize(table.columns.size(), Missing{"see the notes"});
    } else {
      const DataTable& ranks = table_of(experiment.report, "ranks");
      cells.emplace_back(static_cast<int64_t>(ranks.rows.size()));
      for (const std::size_t i : numbers)
        cells.push_back(mean_of(ranks, i));
    }
    table.add(std::move(cells));
  }
  return table;
}

/// Tables of one name below each other, each row with its experiment.
DataTable stacked(const std::vector<Experiment>& experiments, const DataTable& first) {
  DataTable all{.name = first.name, .title = first.title};
  for (const Experiment& experiment : experiments) {
    if (!experiment.problem.empty()) continue;
    const DataTable& one = table_of(experiment.report, first.name);
    take_columns(all.columns, one.columns);
    for (std::vector<DataCell> row : one.rows) {
      row.insert(row.begin(), experiment.name);
      all.rows.push_back(std::move(row));
    }
  }
  if (!all.columns.empty()) all.columns.insert(all.columns.begin(), {"experiment", "experiment"});
  return all;
}

/// What several experiments have in common is said once.
std::vector<std::string> joint_remarks(const std::vector<Experiment>& experiments) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::string>> names;
  const auto say = [&](const std::string& remark, const std::string& name) {
    if (names.find(remark) == names.end()) order.push_back(remark);
    names[remark].push_back(name);
  };
  for (const Experiment& experiment : experiments) {
    if (!experiment.problem.empty()) say(experiment.problem, experiment.name);
    for (const std::string& remark : experiment.report.remarks)
      say(remark, experiment.name);
  }
  std::vector<std::string> said;
  for (const std::string& remark : order)
    said.push_back(fmt::format("{}: {}", fmt::join(names[remark], ", "), remark));
  return said;
}

}  // namespace

Result<std::optional<TraceReport>> trace_experiments(const TraceOptions& options,
                                                     TraceAnalysis analysis) {
  using Report = std::optional<TraceReport>;
  const bool by_experiment = options.analysis == "breakdown" || options.analysis == "overlap";
  if (!by_experiment) {
    const auto tree = std::find_if(options.files.begin(), options.files.end(), is_tree);
    if (tree != options.files.end()) return is_about_one(options, *tree);
    return Report();
  }
  const std::vector<Path> folders = experiments_among(options.files);
  if (folders.empty()) return Report();
  // Of several folders, the paths below the one that the first lies in.
  const Path first_file(options.files.front());
  const std::vector<std::string> names =
      experiment_names(folders, options.files.size() == 1 ? first_file : first_file.parent_path());
  std::vector<Experiment> experiments;
  for (std::size_t i = 0; i < folders.size(); ++i)
    experiments.push_back(analyze(folders[i], names[i], options, analysis));
  const auto first = std::find_if(experiments.begin(), experiments.end(),
                                  [](const Experiment& one) { return one.problem.empty(); });
  if (first == experiments.end())
    return error(fmt::format(
        "{}: none of {} experiments has traces that can be read ({}: {}); report {} shows their "
        "samples",
        options.files.front(), folders.size(), names.front(), experiments.front().problem,
        options.files.front()));
  TraceReport report{.shown = {"experiments"}, .remarks = joint_remarks(experiments)};
  report.tables = {experiment_table(experiments, table_of(first->report, "ranks"))};
  for (const DataTable& table : first->report.tables)
    report.tables.push_back(stacked(experiments, table));
  return Report(std::move(report));
}

}  // namespace triplepoint::study
