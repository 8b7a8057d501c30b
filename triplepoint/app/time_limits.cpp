// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/time_limits.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/base/parallel.h"

#include "triplepoint/sim/simulate.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::app {
namespace {

/// "", " and 1 more job", " and 4 more jobs".
std::string more_jobs(size_t count, const char* before) {
  return count == 0 ? "" : fmt::format("{}{} more job{}", before, count, count == 1 ? "" : "s");
}

Seconds whole_minutes(Seconds time) {
  return std::ceil(time / unit::min) * unit::min;
}

std::string memory_remark(const std::vector<const spec::Job*>& jobs,
                          const formats::MeasurePlan& plan) {
  const std::string limit = plan.timeout ? ""
                                         : fmt::format(", with a time limit of {} or more",
                                                       limit_text(RunTime::least_if_unsure));
  return fmt::format("{}{} {} not fit in memory in the simulation; {} run all the same{}",
                     jobs.front()->name, more_jobs(jobs.size() - 1, " and "),
                     jobs.size() == 1 ? "does" : "do", jobs.size() == 1 ? "it is" : "they are",
                     limit);
}

std::string short_limit_remark(const std::string& worst, const RunTime& time, size_t jobs,
                               const formats::MeasurePlan& plan) {
  const Seconds needed = whole_minutes(RunTime::start_up + *time.steps);
  const std::string limit = plan.timeout
                                ? "--timeout " + limit_text(time.limit)
                                : "the longest time limit, " + limit_text(time.limit) + ",";
  const std::string advice =
      needed > RunTime::most
          ? "give fewer --steps"
          : fmt::format("leave --timeout out, or give {} or more (with {} for the start)",
                        limit_text(needed), limit_text(RunTime::start_up));
  return fmt::format("{} is shorter than the {} step{} of {} ({} in the simulation){}; {}", limit,
                     plan.steps, plan.steps == 1 ? "" : "s", worst, limit_text(*time.steps),
                     more_jobs(jobs - 1, " and those of "), advice);
}

}  // namespace

RunTime run_time(const spec::Job& job, const formats::MeasurePlan& plan) {
  RunTime time;
  Seconds least = RunTime::least_if_unsure;
  if (!spec::has_errors(spec::diagnose(job))) {
    std::optional<Seconds> step = sim::find_steady_step_time(job);
    if (step) {
      least = {};
    } else {
      time.fits_memory = workload::build_work_graph(job).memory.fits();
      step = sim::steady_step_time(job);
    }
    time.steps = static_cast<double>(plan.steps) * *step;
  }
  const Seconds wanted = RunTime::start_up + RunTime::margin * time.steps.value_or(Seconds());
  time.limit =
      plan.timeout.value_or(std::min(RunTime::most, std::max(least, whole_minutes(wanted))));
  return time;
}

std::string limit_text(Seconds time) {
  const auto text = [&](Seconds unit, const char* name) {
    const double count = time / unit;
    return count < 100 ? fmt::format("{:.3g} {}", count, name)
                       : fmt::format("{:.0f} {}", count, name);
  };
  if (time < 2 * unit::min) return text(unit::s, "s");
  if (time < 2 * unit::h) return text(unit::min, "min");
  return time < 48 * unit::h ? text(unit::h, "h") : text(24 * unit::h, "days");
}

std::vector<std::string> limit_remarks(const std::vector<const spec::Job*>& jobs,
                                       const formats::MeasurePlan& plan) {
  std::vector<RunTime> times(jobs.size());
  parallel_for(jobs.size(), available_threads(),
               [&](size_t i) { times[i] = run_time(*jobs[i], plan); });
  std::vector<const spec::Job*> large;
  size_t worst = 0, cut_short = 0;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (!times[i].fits_memory) large.push_back(jobs[i]);
    if (!times[i].steps || *times[i].steps <= times[i].limit) continue;
    if (cut_short++ == 0 || *times[i].steps > *times[worst].steps) worst = i;
  }
  std::vector<std::string> remarks;
  if (!large.empty()) remarks.push_back(memory_remark(large, plan));
  if (cut_short > 0)
    remarks.push_back(short_limit_remark(jobs[worst]->name, times[worst], cut_short, plan));
  return remarks;
}

}  // namespace triplepoint::app
