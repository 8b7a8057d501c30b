// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/figures/paper_figures.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace triplepoint::report {
namespace {

using metrics::KernelSeconds;

/// FSDP first, then by pipeline depth, as the paper orders them.
bool before(const PaperJob& a, const PaperJob& b) {
  const auto key = [](const PaperJob& job) {
    const bool is_fsdp = job.layout.find("FSDP") != std::string::npos;
    return std::tuple(!is_fsdp, job.pipeline, job.layout);
  };
  return key(a) < key(b);
}

int variant_place(const std::string& variant) {
  constexpr const char* order[] = {"base", "overlap", "recompute", "recompute+overlap"};
  for (int i = 0; i < 4; ++i)
    if (variant == order[i]) return i;
  return 4;
}

void sort_jobs(PaperJobs& jobs) {
  std::stable_sort(jobs.begin(), jobs.end(), [](const PaperJob* a, const PaperJob* b) {
    if (before(*a, *b) || before(*b, *a)) return before(*a, *b);
    return std::tuple(variant_place(a->variant), a->microbatch) <
           std::tuple(variant_place(b->variant), b->microbatch);
  });
}

/// Labels that several jobs share name the variant too, and the microbatch.
void tell_apart(PaperGroup& group) {
  const auto add = [&](const auto& text) {
    std::map<std::string, int> count;
    for (const std::string& label : group.labels)
      ++count[label];
    for (std::size_t i = 0; i < group.jobs.size(); ++i)
      if (count[group.labels[i]] > 1 && !group.labels[i].ends_with(text(*group.jobs[i])))
        group.labels[i] += " " + text(*group.jobs[i]);
  };
  add([](const PaperJob& job) { return job.variant; });
  add([](const PaperJob& job) { return fmt::format("mbs{}", job.microbatch); });
}

template <class Label>
std::vector<PaperGroup> by_model(const PaperJobs& jobs, const Label& label) {
  std::vector<PaperGroup> groups;
  for (const std::string& model : distinct(jobs, model_and_task)) {
    PaperGroup group{model, {}, {}};
    for (const PaperJob* job : jobs)
      if (model_and_task(*job) == model) group.jobs.push_back(job);
    sort_jobs(group.jobs);
    for (const PaperJob* job : group.jobs)
      group.labels.push_back(label(*job));
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace

std::vector<PaperGroup> groups_by_model(const PaperJobs& jobs) {
  return by_model(jobs, [](const PaperJob& job) { return job.layout; });
}

std::string machine_text(const PaperJobs& jobs) {
  const std::string& machine = jobs.front()->machine;
  return machine.empty() ? "" : " on " + machine;
}

// ---- the figures

namespace {

PaperFigure panels(const PaperJobs& jobs, const std::string& what, bool normalizes,
                   const std::function<std::string(const PaperJob&)>& label) {
  std::vector<PaperGroup> groups = by_model(jobs, label);
  for (PaperGroup& group : groups)
    tell_apart(group);
  return panels_figure(what + machine_text(jobs), groups, normalizes);
}

std::vector<KernelStack> stage_stacks(const PaperJob& job) {
  if (!job.fits_memory) return {{"OOM", std::nullopt, &job}};
  std::vector<KernelStack> stacks;
  stacks.reserve(job.kernels.size());
  for (const auto& [stage, kernels] : job.kernels)
    stacks.push_back({fmt::format("{}", stage), kernels, &job, stage});
  return stacks;
}

PaperFigure ranks_figure(PaperJobs jobs, const std::string& what,
                         const std::function<std::string(const PaperJob&)>& title) {
  std::stable_sort(jobs.begin(), jobs.end(), [&](const PaperJob* a, const PaperJob* b) {
    return std::tie(a->machine, a->microbatch) < std::tie(b->machine, b->microbatch);
  });
  std::vector<KernelGroup> groups;
  groups.reserve(jobs.size());
  for (const PaperJob* job : jobs)
    groups.push_back({job->machine, title(*job), stage_stacks(*job)});
  return stacks_figure(fmt::format("{}: {}", jobs.front()->model, what), groups);
}

PaperFigure classes_figure(const PaperJobs& jobs) {
  std::vector<KernelGroup> groups;
  for (const PaperGroup& model : by_model(jobs, [](const PaperJob& j) { return j.variant; })) {
    for (std::size_t i = 0; i < model.jobs.size(); ++i) {
      const PaperJob& job = *model.jobs[i];
      const bool is_new = groups.empty() || groups.back().heading != model.title ||
                          groups.back().title != job.layout;
      if (is_new) groups.push_back({model.title, job.layout, {}});
      KernelSeconds mean;
      for (const auto& [stage, kernels] : job.kernels)
        mean += kernels;
      if (!job.kernels.empty()) mean *= 1.0 / static_cast<double>(job.kernels.size());
      groups.back().stacks.push_back(
          {job.variant, job.fits_memory ? std::optional(mean) : std::nullopt, &job});
    }
  }
  return stacks_figure("Kernel seconds by class" + machine_text(jobs), groups);
}

PaperMap map_of(const PaperJobs& jobs, std::string title, std::string unit_name,
                std::string quantity,
                const std::function<std::vector<double>(const PaperJob&)>& values) {
  PaperMap map{
      std::move(title),           std::move(unit_name), std::move(quantity), {}, false, false,
      jobs.front()->gpus_per_node};
  for (PaperGroup& model : groups_by_model(jobs)) {
    tell_apart(model);
    for (std::size_t i = 0; i < model.jobs.size(); ++i) {
      if (!model.jobs[i]->fits_memory) continue;
      std::vector<double> row = values(*model.jobs[i]);
      if (!row.empty())
        map.rows.push_back({model.title + " " + model.labels[i], std::move(row), model.jobs[i]});
    }
  }
  return map;
}

/// How far the clock of each GPU is below the fastest, over how far that of the slowest is. The
/// paper's map spans 0 to 1 in every row, and its sampler reads clocks, not clock events.
std::vector<double> throttled(const PaperJob& job) {
  constexpr double no_difference_mhz = 1;
  std::vector<double> clocks = job.metrics.sm_clock_per_gpu_mhz;
  double lowest = INFINITY, highest = -INFINITY;
  for (const double mhz : clocks)
    if (std::isfinite(mhz)) lowest = std::min(lowest, mhz), highest = std::max(highest, mhz);
  for (double& mhz : clocks)
    mhz = highest - lowest < no_difference_mhz ? 0 * mhz : (highest - mhz) / (highest - lowest);
  return clocks;
}

std::vector<double> in_gib(std::vector<double> bytes) {
  for (double& value : bytes)
    value /= unit::GiB / unit::B;
  return bytes;
}

Result<PaperFigure> maps(const std::string& title, const char* what, std::vector<PaperMap> all) {
  std::erase_if(all, [](const PaperMap& map) { return map.rows.empty(); });
  if (all.empty())
    return error(
        fmt::format("no job that the figure shows knows the {} of single GPUs; simulate "
                    "or record the jobs, or choose others with --machine and --model",
                    what));
  return maps_figure(title, all);
}

Result<PaperFigure> traffic_figure(const PaperJobs& jobs) {
  // Simulated collectives and pipelines receive what they send; traffic between nodes takes PCIe to
  // the NICs.
  PaperMap up = map_of(jobs, "NVLink, inside the node", "GiB received in a step",
                       "nvlink_received_gib", [](const PaperJob& j) {
                         const metrics::LinkUse& links = j.metrics.links;
                         return in_gib(links.scale_up_received_per_gpu_bytes.empty()
                                           ? links.scale_up_per_gpu_bytes
                                           : links.scale_up_received_per_gpu_bytes);
                       });
  PaperMap out = map_of(jobs, "PCIe, to the NICs and the host", "GiB received in a step",
                        "pcie_received_gib", [](const PaperJob& j) {
                          const metrics::LinkUse& links = j.metrics.links;
                          return in_gib(links.pcie_received_per_gpu_bytes.empty()
                                            ? links.scale_out_per_gpu_bytes
                                            : links.pcie_received_per_gpu_bytes);
                        });
  up.is_logarithmic = out.is_logarithmic = true;
  return maps("Traffic of every GPU" + machine_text(jobs), "traffic",
              {std::move(up), std::move(out)});
}

Result<PaperFigure> heat_figure(const PaperJobs& jobs) {
  PaperMap heat = map_of(jobs, "(a) Temperature, mean over a step", "°C", "temperature_c",
                         [](const PaperJob& j) { return j.metrics.temperature_per_gpu_c; });
  heat.adds_mean_row = true;
  PaperMap held = map_of(jobs, "(b) Clock below the fastest GPU of the row, 1: the slowest", "",
                         "clock_below_fastest", throttled);
  held.adds_mean_row = true;
  return maps("Heat and throttling of every GPU" + machine_text(jobs), "temperatures",
              {std::move(heat), std::move(held)});
}

Result<void> require_kernels(const PaperJobs& jobs) {
  const bool any = std::any_of(jobs.begin(), jobs.end(),
                               [](const PaperJob* job) { return !job->kernels.empty(); });
  if (any) return {};
  return error(
      "no run has a timeline (this figure is made of kernel times); simulate, or record with "
      "profiler traces");
}

std::string with_mbs(const PaperJob& job) {
  return fmt::format("{} mbs{}", job.layout, job.microbatch);
}

Result<PaperFigure> kernel_figure(int64_t number, PaperJobs jobs) {
  TPT_TRY(require_kernels(jobs));
  sort_jobs(jobs);
  if (number == 10) return classes_figure(jobs);
  return ranks_figure(
      jobs, "kernel seconds of each pipeline stage" + (number == 3 ? "" : machine_text(jobs)),
      number == 3 ? [](const PaperJob& j) { return j.layout; } : with_mbs);
}

Result<PaperFigure> draw(int64_t number, const PaperJobs& jobs) {
  switch (number) {
    case 4:
      return panels(jobs, "Temperature, power, clock and efficiency", false,
                    [](const PaperJob& j) { return j.layout; });
    case 8:
      return panels(jobs, "What optimizations change", true,
                    [](const PaperJob& j) { return j.layout + " " + j.variant; });
    case 13:
      return panels(jobs, "What larger microbatches change", true, with_mbs);
    case 5:
      return traffic_figure(jobs);
    case 17:
      return heat_figure(jobs);
    default:
      return kernel_figure(number, jobs);
  }
}

}  // namespace

std::vector<int64_t> paper_figure_numbers() {
  return {3, 4, 5, 8, 10, 13, 15, 17};
}

std::vector<std::string> figure_names() {
  std::vector<std::string> names;
  for (const int64_t number : paper_figure_numbers())
    names.push_back(fmt::format("{}", number));
  return names;
}

Result<PaperFigure> figure_named(std::string_view name, const std::vector<PaperJob>& all,
                                 const FigureChoice& choice) {
  if (all.empty())
    return error("there is no run to draw (a figure needs some); name runs or studies");
  for (const int64_t number : paper_figure_numbers())
    if (name == fmt::format("{}", number)) return paper_figure(number, all, choice);
  return error(fmt::format("there is no figure '{}'; choose one of {}", name,
                           fmt::join(figure_names(), ", ")));
}

Result<PaperFigure> paper_figure(int64_t number, const std::vector<PaperJob>& all,
                                 const FigureChoice& choice) {
  const std::vector<int64_t> known = paper_figure_numbers();
  if (std::ranges::find(known, number) == known.end())
    return error(
        fmt::format("figure {} cannot be drawn; choose one of {}", number, fmt::join(known, ", ")));
  if (all.empty())
    return error("there is no run to draw (a figure needs some); name runs or studies");
  const PaperJobs jobs = TPT_TRY(jobs_of_figure(number, all, choice));
  PaperFigure figure = TPT_TRY(draw(number, jobs));
  figure.left_out = left_out_text(all, jobs, figure.numbers);
  return figure;
}

}  // namespace triplepoint::report
