// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/figures/paper_figures.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/metrics/run/view.h"
#include "triplepoint/report/findings/labels.h"

namespace triplepoint::report {
namespace {

/// Layouts by index, from 1; index 5 is FSDP for the dense models.
struct Layouts {
  std::string_view model;
  std::vector<std::string_view> of_32, of_64;
};

const std::vector<Layouts>& layouts() {
  static const std::vector<Layouts> all = {
      {"gpt3-175b",
       {"TP2-PP16", "TP4-PP8", "TP8-PP4", "TP1-PP32", "TP8-FSDP"},
       {"TP2-PP32", "TP4-PP16", "TP8-PP8", "", "TP8-FSDP"}},
      {"llama3-70b",
       {"TP8-PP2", "TP4-PP4", "TP2-PP8", "TP1-PP16", "TP8-FSDP"},
       {"TP8-PP4", "TP4-PP8", "TP2-PP16", "TP1-PP32", "TP8-FSDP"}},
      {"mixtral-8x22b",
       {"EP8-TP1-PP4", "EP8-TP2-PP2", "EP8-TP4-PP1"},
       {"EP8-TP8-PP1", "EP8-TP4-PP2", "EP8-TP2-PP4", "EP8-TP1-PP8"}},
      {"mixtral-8x7b",
       {"EP8-TP1-PP1", "EP4-TP2-PP1"},
       {"EP8-TP1-PP2", "EP4-TP4-PP1", "EP4-TP2-PP2", "EP4-TP1-PP4"}}};
  return all;
}

std::optional<int64_t> number_in(std::string_view text) {
  int64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool read_variant(std::string_view word, ArtifactName& name) {
  if (word.starts_with("mbs")) {
    const auto size = number_in(word.substr(3));
    if (!size || *size < 1) return false;
    name.microbatch = *size;
    name.variant = "recompute";
    return true;
  }
  if (word.size() != 5 || word.find_first_not_of("01") != std::string_view::npos) return false;
  const bool overlap = word[0] == '1', recompute = word[1] == '1';
  name.variant = overlap && recompute ? "recompute+overlap"
                 : overlap            ? "overlap"
                 : recompute          ? "recompute"
                                      : "base";
  return true;
}

}  // namespace

std::optional<ArtifactName> parse_artifact_name(std::string_view text, int64_t devices) {
  const std::size_t last = text.rfind('_');
  if (last == std::string_view::npos) return std::nullopt;
  const std::size_t middle = text.substr(0, last).rfind('_');
  if (middle == std::string_view::npos) return std::nullopt;
  ArtifactName name;
  if (!read_variant(text.substr(last + 1), name)) return std::nullopt;
  const auto index = number_in(text.substr(middle + 1, last - middle - 1));
  for (const Layouts& of : layouts()) {
    if (of.model != text.substr(0, middle)) continue;
    const auto& known = devices > 32 ? of.of_64 : of.of_32;
    if (!index || *index < 1 || *index > static_cast<int64_t>(known.size())) return std::nullopt;
    name.model = of.model;
    name.layout = known[static_cast<std::size_t>(*index - 1)];
    if (name.layout.empty()) return std::nullopt;
    const std::size_t depth = name.layout.find("PP");
    if (depth != std::string::npos)
      name.pipeline = number_in(std::string_view(name.layout).substr(depth + 2)).value_or(1);
    return name;
  }
  return std::nullopt;
}

namespace {

using metrics::KernelSeconds;

/// Mean over the ranks of each stage, in one step.
std::map<int32_t, KernelSeconds> kernels_of(const run::Run& run) {
  const metrics::View view = metrics::look_at(run);
  const std::vector<KernelSeconds> all =
      metrics::kernel_seconds_of_ranks(view.timeline(), metrics::KernelRules::upstream);
  std::map<int32_t, KernelSeconds> sums;
  std::map<int32_t, double> counts;
  for (const int32_t rank : view.ranks) {
    const auto i = static_cast<std::size_t>(rank);
    const int32_t stage = i < view.stage_of_rank.size() ? view.stage_of_rank[i] : -1;
    // Where stages are not known, each rank that was traced stands for one, as in the artifact.
    const int32_t place = stage >= 0 ? stage : rank;
    sums[place] += all[i];
    counts[place] += 1;
  }
  for (auto& [place, sum] : sums)
    sum *= 1 / (counts[place] * view.num_steps());
  return sums;
}

/// FSDP first, then by pipeline depth, as the paper orders them.
bool before(const PaperJob& a, const PaperJob& b) {
  const auto key = [](const PaperJob& job) {
    const bool is_fsdp = job.layout.find("FSDP") != std::string::npos;
    return std::tuple(!is_fsdp, job.pipeline, job.layout);
  };
  return key(a) < key(b);
}

/// What a figure takes of the jobs.
struct Selection {
  std::vector<std::string> variants;  // empty: all
  bool sweeps_microbatch = false;     // else microbatch 1
  bool takes_all_machines = false;
};

template <class Key>
std::vector<std::string> distinct(const PaperJobs& jobs, const Key& key) {
  std::vector<std::string> found;
  for (const PaperJob* job : jobs)
    if (std::find(found.begin(), found.end(), key(*job)) == found.end()) found.push_back(key(*job));
  return found;
}

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

/// Jobs that are equal in all that figures tell apart are drawn once.
PaperJobs without_repeats(const PaperJobs& jobs) {
  std::set<std::tuple<std::string, std::string, std::string, std::string, int64_t>> seen;
  PaperJobs kept;
  for (const PaperJob* job : jobs)
    if (seen.emplace(job->model, job->machine, job->layout, job->variant, job->microbatch).second)
      kept.push_back(job);
  return kept;
}

PaperJobs select(const std::vector<PaperJob>& all, const Selection& selection) {
  PaperJobs jobs;
  jobs.reserve(all.size());
  for (const PaperJob& job : all)
    jobs.push_back(&job);
  const auto keep = [&](const auto& wanted) {
    PaperJobs kept;
    std::copy_if(jobs.begin(), jobs.end(), std::back_inserter(kept), wanted);
    if (!kept.empty()) jobs = std::move(kept);  // a choice that leaves nothing is no choice
  };
  if (!selection.takes_all_machines) {
    const std::string machine = most_frequent_machine(jobs);
    keep([&](const PaperJob* job) { return job->machine == machine; });
  }
  if (!selection.sweeps_microbatch) keep([](const PaperJob* job) { return job->microbatch == 1; });
  if (!selection.variants.empty())
    keep([&](const PaperJob* job) {
      return std::find(selection.variants.begin(), selection.variants.end(), job->variant) !=
             selection.variants.end();
    });
  return without_repeats(jobs);
}

/// Only layouts that were run with several microbatch sizes; all if none was.
PaperJobs swept(const PaperJobs& jobs) {
  std::map<std::pair<std::string, std::string>, std::set<int64_t>> sizes;
  for (const PaperJob* job : jobs)
    sizes[{job->model, job->layout}].insert(job->microbatch);
  PaperJobs kept;
  for (const PaperJob* job : jobs)
    if (sizes[{job->model, job->layout}].size() > 1) kept.push_back(job);
  return kept.empty() ? jobs : kept;
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

template <class Label>
std::vector<PaperGroup> by_model(const PaperJobs& jobs, const Label& label) {
  std::vector<PaperGroup> groups;
  for (const std::string& model : distinct(jobs, [](const PaperJob& j) { return j.model; })) {
    PaperGroup group{model, {}, {}};
    for (const PaperJob* job : jobs)
      if (job->model == model) group.jobs.push_back(job);
    sort_jobs(group.jobs);
    for (const PaperJob* job : group.jobs)
      group.labels.push_back(label(*job));
    groups.push_back(std::move(group));
  }
  return groups;
}

std::string machine_text(const PaperJobs& jobs) {
  const std::string& machine = jobs.front()->machine;
  return machine.empty() ? "" : " on " + machine;
}

// ---- the figures

std::string panels(const PaperJobs& jobs, const std::string& what, bool normalizes,
                   const std::function<std::string(const PaperJob&)>& label) {
  return panels_figure(what + machine_text(jobs), by_model(jobs, label), normalizes);
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

std::vector<KernelStack> stage_stacks(const PaperJob& job) {
  if (!job.fits_memory) return {{"OOM", std::nullopt}};
  std::vector<KernelStack> stacks;
  stacks.reserve(job.kernels.size());
  for (const auto& [stage, kernels] : job.kernels)
    stacks.push_back({fmt::format("{}", stage), kernels});
  return stacks;
}

std::string ranks_figure(PaperJobs jobs, const std::string& what,
                         const std::function<std::string(const PaperJob&)>& title) {
  jobs = of_one_model(jobs);
  std::stable_sort(jobs.begin(), jobs.end(), [&](const PaperJob* a, const PaperJob* b) {
    return std::tie(a->machine, a->microbatch) < std::tie(b->machine, b->microbatch);
  });
  std::vector<KernelGroup> groups;
  groups.reserve(jobs.size());
  for (const PaperJob* job : jobs)
    groups.push_back({job->machine, title(*job), stage_stacks(*job)});
  return stacks_figure(fmt::format("{}: {}", jobs.front()->model, what), groups);
}

std::string classes_figure(const PaperJobs& jobs) {
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
          {job.variant, job.fits_memory ? std::optional(mean) : std::nullopt});
    }
  }
  return stacks_figure("Kernel seconds by class" + machine_text(jobs), groups);
}

PaperMap map_of(const PaperJobs& jobs, std::string title, std::string unit_name,
                const std::function<std::vector<double>(const PaperJob&)>& values) {
  PaperMap map{std::move(title),           std::move(unit_name), {}, false, false,
               jobs.front()->gpus_per_node};
  for (const PaperGroup& model : by_model(jobs, [](const PaperJob& j) { return j.layout; }))
    for (std::size_t i = 0; i < model.jobs.size(); ++i) {
      if (!model.jobs[i]->fits_memory) continue;
      std::vector<double> row = values(*model.jobs[i]);
      if (!row.empty()) map.rows.emplace_back(model.title + " " + model.labels[i], std::move(row));
    }
  return map;
}

/// Share of time, of the reason that holds longest: reasons overlap.
std::vector<double> throttled(const PaperJob& job) {
  std::vector<double> most;
  for (const auto& [reason, shares] : job.metrics.throttle_per_gpu) {
    most.resize(std::max(most.size(), shares.size()), 0);
    for (std::size_t i = 0; i < shares.size(); ++i)
      most[i] = std::max(most[i], 100 * shares[i]);
  }
  return most;
}

std::vector<double> in_gib(std::vector<double> bytes) {
  for (double& value : bytes)
    value /= unit::GiB / unit::B;
  return bytes;
}

Result<std::string> maps(const std::string& title, std::vector<PaperMap> all) {
  std::erase_if(all, [](const PaperMap& map) { return map.rows.empty(); });
  if (all.empty())
    return error(
        "no run has values of single GPUs (the figure shows them); simulate or record the jobs");
  return maps_figure(title, all);
}

Result<std::string> traffic_figure(const PaperJobs& jobs) {
  PaperMap up = map_of(jobs, "Inside the node", "GiB sent in a step", [](const PaperJob& j) {
    return in_gib(j.metrics.links.scale_up_per_gpu_bytes);
  });
  PaperMap out = map_of(jobs, "Between nodes", "GiB sent in a step", [](const PaperJob& j) {
    return in_gib(j.metrics.links.scale_out_per_gpu_bytes);
  });
  up.is_logarithmic = out.is_logarithmic = true;
  return maps("Traffic of every GPU" + machine_text(jobs), {std::move(up), std::move(out)});
}

Result<std::string> heat_figure(const PaperJobs& jobs) {
  PaperMap heat = map_of(jobs, "(a) Temperature, mean over a step", "°C",
                         [](const PaperJob& j) { return j.metrics.temperature_per_gpu_c; });
  heat.adds_mean_row = true;
  PaperMap held = map_of(jobs, "(b) Throttling, share of time", "%", throttled);
  return maps("Heat and throttling of every GPU" + machine_text(jobs),
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

const std::vector<std::string> with_recompute = {"recompute"}, plain = {"base"};

std::string with_mbs(const PaperJob& job) {
  return fmt::format("{} mbs{}", job.layout, job.microbatch);
}

Result<std::string> kernel_figure(int64_t number, const std::vector<PaperJob>& all) {
  Selection selection;
  if (number == 3) selection = {plain, false, true};
  if (number == 10) selection.variants = {"base", "recompute"};
  if (number == 15) selection = {with_recompute, true, false};
  PaperJobs jobs = select(all, selection);
  TPT_TRY(require_kernels(jobs));
  sort_jobs(jobs);
  if (number == 10) return classes_figure(jobs);
  if (number == 3)
    return ranks_figure(jobs, "kernel seconds of each pipeline stage",
                        [](const PaperJob& j) { return j.layout; });
  jobs = swept(jobs);
  PaperJobs ends;  // the paper shows microbatches 1 and 4
  std::copy_if(jobs.begin(), jobs.end(), std::back_inserter(ends),
               [](const PaperJob* job) { return job->microbatch == 1 || job->microbatch == 4; });
  return ranks_figure(ends.empty() ? jobs : ends,
                      "kernel seconds of each pipeline stage" + machine_text(jobs), with_mbs);
}

/// A recording of the paper's artifact knows its job by the name of its folder.
void name_by_artifact(PaperJob& job, const run::Run& run, const metrics::Metrics& metrics,
                      const std::string& name) {
  const auto devices = static_cast<int64_t>(run.devices.size());
  const auto known = parse_artifact_name(name, devices);
  if (!known) return;
  job.model = known->model;
  job.layout = known->layout;
  job.variant = known->variant;
  job.microbatch = known->microbatch;
  job.pipeline = known->pipeline;
  if (devices > 0)
    job.machine = fmt::format("{} x {}", devices,
                              run.devices.front().name.empty() ? (devices > 32 ? "H100" : "H200")
                                                               : run.devices.front().name);
  if (!job.efficiency && metrics.energy_j && metrics.step_time && *metrics.energy_j > 0)
    job.efficiency = artifact_batch / (*metrics.step_time / unit::s) / (*metrics.energy_j / 1e6);
}

}  // namespace

PaperJob paper_job(const run::Run& run, metrics::Metrics metrics, const std::string& name) {
  PaperJob job;
  job.fits_memory = run.manifest.fits_memory;
  job.efficiency = metrics.samples_per_s_mj;
  job.layout = name;
  for (const run::Device& device : run.devices)
    job.gpus_per_node = &device == run.devices.data()
                            ? device.local + 1
                            : std::max<int64_t>(job.gpus_per_node, device.local + 1);
  if (run.manifest.job) {
    const spec::Job& spec = *run.manifest.job;
    job.model = spec.model.name;
    const std::string label = group_label(spec);
    const std::size_t on = label.find(" on ");
    job.machine = on == std::string::npos ? "" : label.substr(on + 4);
    job.layout = configuration_label(spec);
    job.variant = variant_label(spec);
    job.microbatch = spec.plan.micro_batch_size;
    job.pipeline = spec.plan.pipeline_parallel_size;
    job.gpus_per_node = spec.cluster.gpus_per_node;
  }
  if (!run.manifest.job) name_by_artifact(job, run, metrics, name);
  if (!run.timeline.empty() && job.fits_memory) job.kernels = kernels_of(run);
  job.metrics = std::move(metrics);
  return job;
}

std::vector<int64_t> paper_figure_numbers() {
  return {3, 4, 5, 8, 10, 13, 15, 17};
}

Result<std::string> paper_figure(int64_t number, const std::vector<PaperJob>& all) {
  if (all.empty())
    return error("there is no run to draw (a figure needs some); name runs or studies");
  switch (number) {
    case 4:
      return panels(select(all, {with_recompute, false, false}),
                    "Temperature, power, clock and efficiency", false,
                    [](const PaperJob& j) { return j.layout; });
    case 8:
      return panels(select(all, {{}, false, false}), "What optimizations change", true,
                    [](const PaperJob& j) { return j.layout + " " + j.variant; });
    case 13:
      return panels(swept(select(all, {with_recompute, true, false})),
                    "What larger microbatches change", true, with_mbs);
    case 5:
      return traffic_figure(select(all, {plain, false, false}));
    case 17:
      return heat_figure(select(all, {plain, false, false}));
    case 3:
    case 10:
    case 15:
      return kernel_figure(number, all);
    default:
      return error(fmt::format("figure {} cannot be drawn; choose one of {}", number,
                               fmt::join(paper_figure_numbers(), ", ")));
  }
}

}  // namespace triplepoint::report
