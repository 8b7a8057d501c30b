// SPDX-License-Identifier: Apache-2.0
// Many jobs on all cores.
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "triplepoint/base/parallel.h"

#include "triplepoint/answers/results.h"

#include "python/bindings.h"
#include "python/wait.h"

namespace triplepoint::python {
namespace py = pybind11;
namespace {

/// One job of a sweep: its numbers as a row of results.csv, or why there are none.
struct SweepRow {
  std::vector<std::string> cells;
  std::string problem;
};

/// What to simulate: flags of the job, flags of the simulation.
struct SweepItem {
  FlagTexts job, simulation;
};

Result<SweepRow> row_of(const JobRequest& base, const SweepItem& item) {
  JobRequest request = base;
  request.flags = item.job;
  const Job job = TPT_TRY(flags::make_job(std::move(request)));
  const flags::JobResults results = TPT_TRY(flags::simulate(job, item.simulation));
  return SweepRow{answers::results_row(results.run, results.metrics), {}};
}

SweepRow row_or_problem(const JobRequest& base, const SweepItem& item) {
  Result<SweepRow> row = row_of(base, item);
  if (row) return *std::move(row);
  return {.problem = row.error().what};
}

std::vector<SweepRow> rows_of(const JobRequest& base, const std::vector<SweepItem>& items,
                              int threads, Work& work) {
  std::vector<SweepRow> rows(items.size());
  std::stop_source stop;
  work.total = items.size();
  parallel_for(
      items.size(), threads,
      [&](size_t i) {
        if (work.stopped) stop.request_stop();
        if (stop.stop_requested()) return;
        rows[i] = row_or_problem(base, items[i]);
        ++work.done;
      },
      stop.get_token());
  return rows;
}

py::list as_list(const std::vector<SweepRow>& rows) {
  py::list list;
  for (const SweepRow& row : rows)
    list.append(py::make_tuple(row.cells, row.problem));
  return list;
}

py::list sweep(std::string file, std::string beginning,
               const std::vector<std::pair<FlagTexts, FlagTexts>>& flags, int threads,
               const py::object& progress) {
  auto items = mapped(flags, [](const auto& of) { return SweepItem{of.first, of.second}; });
  const JobRequest base{std::move(file), std::move(beginning), {}};
  const int used = threads > 0 ? threads : available_threads();
  return as_list(wait_for<std::vector<SweepRow>>(
      [base, items = std::move(items), used](Work& work) -> Result<std::vector<SweepRow>> {
        return rows_of(base, items, used, work);
      },
      progress));
}

}  // namespace

void add_sweep(py::module_& module) {
  module.def("sweep", &sweep);
}

}  // namespace triplepoint::python
