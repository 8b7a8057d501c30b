// SPDX-License-Identifier: Apache-2.0
// Which jobs a figure of the paper shows.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/text.h"

#include "triplepoint/report/figures/paper_figures.h"

namespace triplepoint::report {

std::string model_and_task(const PaperJob& job) {
  return job.task.empty() ? job.model : job.model + " (" + job.task + ")";
}

namespace {

/// What a figure takes of the jobs.
struct Selection {
  std::vector<std::string> variants;  // empty: all
  bool sweeps_microbatch = false;     // else microbatch 1
  bool takes_all_machines = false;
  std::string_view sweep = "optimization";  // which the artifact's scripts read
};

std::string most_frequent_machine(const PaperJobs& jobs) {
  std::string best;
  std::ptrdiff_t most = 0;
  for (const std::string& machine : distinct(jobs, [](const PaperJob& j) { return j.machine; })) {
    const auto count = std::count_if(jobs.begin(), jobs.end(),
                                     [&](const PaperJob* job) { return job->machine == machine; });
    if (count > most) {
      most = count;
      best = machine;
    }
  }
  return best;
}

/// Jobs that are equal in all that figures tell apart are drawn once: the first of the sweep, else
/// the first. In the artifact mbs1 of the microbatch sweep repeats 01000 of the optimization sweep.
PaperJobs without_repeats(PaperJobs jobs, std::string_view sweep) {
  const auto key = [](const PaperJob& job) {
    return std::tie(job.model, job.machine, job.task, job.layout, job.variant, job.microbatch);
  };
  const auto is_of = [&](const PaperJob* job) { return job->sweep.starts_with(sweep); };
  const PaperJobs all = jobs;
  std::erase_if(jobs, [&](const PaperJob* job) {
    const auto same = [&](const PaperJob* other) { return key(*other) == key(*job); };
    const auto first = std::ranges::find_if(all, same);
    const auto best = std::ranges::find_if(
        all, [&](const PaperJob* other) { return same(other) && is_of(other); });
    return job != (best == all.end() ? *first : *best);
  });
  return jobs;
}

/// Devices in another order or layers in uneven parts belong to every variant.
std::string without_placement(std::string variant) {
  for (const std::string_view part : {"uneven", "placed"}) {
    if (variant == part) return "base";
    if (variant.ends_with(part)) variant.resize(variant.size() - part.size() - 1);
  }
  return variant;
}

/// Of each model and task those that are wanted; all of one that has none.
template <class Wanted>
void keep(PaperJobs& jobs, const Wanted& wanted) {
  std::set<std::string> has_some;
  for (const PaperJob* job : jobs)
    if (wanted(*job)) has_some.insert(model_and_task(*job));
  std::erase_if(jobs, [&](const PaperJob* job) {
    return !wanted(*job) && has_some.contains(model_and_task(*job));
  });
}

PaperJobs select(const PaperJobs& all, const Selection& selection) {
  PaperJobs jobs = all;
  if (!selection.takes_all_machines) {
    const std::string machine = most_frequent_machine(jobs);
    std::erase_if(jobs, [&](const PaperJob* job) { return job->machine != machine; });
  }
  if (!selection.variants.empty())
    keep(jobs, [&](const PaperJob& job) {
      return std::ranges::find(selection.variants, without_placement(job.variant)) !=
             selection.variants.end();
    });
  if (!selection.sweeps_microbatch)
    keep(jobs, [](const PaperJob& job) { return job.microbatch == 1; });
  return without_repeats(jobs, selection.sweep);
}

/// Only layouts that were run with several microbatch sizes; all if none was.
PaperJobs swept(const PaperJobs& jobs) {
  std::map<std::pair<std::string, std::string>, std::set<int64_t>> sizes;
  for (const PaperJob* job : jobs)
    sizes[{model_and_task(*job), job->layout}].insert(job->microbatch);
  PaperJobs kept;
  for (const PaperJob* job : jobs)
    if (sizes[{model_and_task(*job), job->layout}].size() > 1) kept.push_back(job);
  return kept.empty() ? jobs : kept;
}

/// The model that the paper's per-rank figures are about, or the first.
PaperJobs of_one_model(const PaperJobs& jobs) {
  const auto wanted = std::find_if(jobs.begin(), jobs.end(),
                                   [](const PaperJob* job) { return job->model == "gpt3-175b"; });
  const std::string& model = wanted == jobs.end() ? jobs.front()->model : (*wanted)->model;
  PaperJobs kept;
  std::copy_if(jobs.begin(), jobs.end(), std::back_inserter(kept),
               [&](const PaperJob* job) { return job->model == model; });
  return kept;
}

const std::vector<std::string> with_both = {"recompute+overlap"}, with_recompute = {"recompute"},
                               plain = {"base"};

/// What the paper's figure of this number is about.
Selection selection_of(int64_t number) {
  switch (number) {
    case 3:
      return {with_both, false, true};
    case 4:
      return {with_recompute, false, false};
    case 5:
    case 17:
      return {plain, false, false};
    case 10:
      return {{"base", "recompute"}, false, false};
    case 13:
    case 15:
      return {with_recompute, true, false, "microbatch"};
    default:
      return {};
  }
}

/// Jobs that the figure of this number shows.
PaperJobs drawn(int64_t number, const PaperJobs& all) {
  PaperJobs jobs = select(all, selection_of(number));
  if (number == 13 || number == 15) jobs = swept(jobs);
  if (number == 15) {
    PaperJobs ends;  // the paper shows microbatches 1 and 4
    std::ranges::copy_if(jobs, std::back_inserter(ends), [](const PaperJob* job) {
      return job->microbatch == 1 || job->microbatch == 4;
    });
    if (!ends.empty()) jobs = std::move(ends);
  }
  if (number == 3 || number == 15) jobs = of_one_model(jobs);
  return jobs;
}

bool names(const std::string& name, const std::string& wanted) {
  return lower_case(name).find(lower_case(wanted)) != std::string::npos;
}

/// Jobs of the chosen machine and model; an error lists what there is.
Result<PaperJobs> chosen(const std::vector<PaperJob>& all, const FigureChoice& choice) {
  PaperJobs jobs, of_machine;
  for (const PaperJob& job : all)
    jobs.push_back(&job);
  const auto require = [](const PaperJobs& left, const PaperJobs& before, const char* what,
                          const std::string& wanted, const auto& key) -> Result<void> {
    if (!left.empty()) return {};
    return error(fmt::format("no job's {} contains '{}' (there are: {}); choose one of them", what,
                             wanted, fmt::join(distinct(before, key), ", ")));
  };
  std::ranges::copy_if(jobs, std::back_inserter(of_machine),
                       [&](const PaperJob* job) { return names(job->machine, choice.machine); });
  TPT_TRY(require(of_machine, jobs, "machine", choice.machine,
                  [](const PaperJob& j) { return j.machine; }));
  PaperJobs of_model;
  std::ranges::copy_if(of_machine, std::back_inserter(of_model),
                       [&](const PaperJob* job) { return names(job->model, choice.model); });
  TPT_TRY(require(of_model, of_machine, "model", choice.model,
                  [](const PaperJob& j) { return j.model; }));
  return of_model;
}

}  // namespace

Result<PaperJobs> jobs_of_figure(int64_t number, const std::vector<PaperJob>& all,
                                 const FigureChoice& choice) {
  return drawn(number, TPT_TRY(chosen(all, choice)));
}

namespace {

std::string name_of(const PaperJob& job) {
  return fmt::format("{} {} {}{}", model_and_task(job), job.layout, job.variant,
                     job.microbatch == 1 ? "" : fmt::format(" mbs{}", job.microbatch));
}

/// "a, b and 7 more"
std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t most = 4;
  if (names.size() <= most) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + most, ", "),
                     names.size() - most);
}

/// What is chosen and has nothing to draw, with why.
std::string undrawn_text(const PaperJobs& chosen, const PaperJobs& drawn) {
  std::vector<std::string> reasons;
  std::map<std::string, std::vector<std::string>> jobs;
  for (const PaperJob* job : chosen) {
    if (std::ranges::find(drawn, job) != drawn.end()) continue;
    const std::string why = job->fits_memory ? "without such numbers" : "out of memory";
    std::vector<std::string>& of_reason = jobs[why];
    if (of_reason.empty()) reasons.push_back(why);
    of_reason.push_back(name_of(*job));
  }
  std::string text;
  for (const std::string& reason : reasons)
    text += fmt::format("; not drawn, as {}: {}", reason, listed(jobs[reason]));
  return text;
}

}  // namespace

std::string left_out_text(const std::vector<PaperJob>& all, const PaperJobs& chosen,
                          const std::vector<FigureNumber>& numbers) {
  std::set<const PaperJob*> seen;
  for (const FigureNumber& number : numbers)
    seen.insert(number.job);
  PaperJobs drawn;
  std::ranges::copy_if(chosen, std::back_inserter(drawn),
                       [&](const PaperJob* job) { return seen.contains(job); });
  if (drawn.size() == all.size()) return "";
  std::set<int64_t> sizes;
  for (const PaperJob* job : drawn)
    sizes.insert(job->microbatch);
  std::string text =
      fmt::format("it shows {} of {} jobs: {}; {}; {}; microbatch {}", drawn.size(), all.size(),
                  fmt::join(distinct(drawn, [](const PaperJob& j) { return j.machine; }), ", "),
                  fmt::join(distinct(drawn, model_and_task), ", "),
                  fmt::join(distinct(drawn, [](const PaperJob& j) { return j.variant; }), ", "),
                  fmt::join(sizes, ", "));
  text += undrawn_text(chosen, drawn);
  const auto has_others = [&](const auto& name) {
    return std::ranges::any_of(all, [&](const PaperJob& job) {
      return std::ranges::none_of(drawn,
                                  [&](const PaperJob* other) { return name(*other) == name(job); });
    });
  };
  if (has_others([](const PaperJob& job) { return job.machine; }) ||
      has_others([](const PaperJob& job) { return job.model; }))
    text += "; --machine and --model choose others";
  return text;
}

}  // namespace triplepoint::report
