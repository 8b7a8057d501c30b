// SPDX-License-Identifier: Apache-2.0
// What the paper's figures draw of one run, from its job or from the name of its folder.
#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "triplepoint/answers/labels.h"
#include "triplepoint/metrics/run/view.h"
#include "triplepoint/metrics/trace/collective_match.h"
#include "triplepoint/report/figures/artifact_name.h"
#include "triplepoint/report/figures/paper_figures.h"

namespace triplepoint::report {
namespace {

using metrics::KernelSeconds;

/// Mean over the ranks of each stage, in one step.
std::map<int32_t, KernelSeconds> kernels_of(const run::Run& run, int64_t ranks_per_stage) {
  const metrics::View view = metrics::look_at(run);
  const std::vector<KernelSeconds> all =
      metrics::kernel_seconds_of_ranks(view.timeline(), metrics::KernelRules::upstream);
  std::map<int32_t, KernelSeconds> sums;
  std::map<int32_t, double> counts;
  for (const int32_t rank : view.ranks) {
    const auto i = static_cast<std::size_t>(rank);
    const int32_t stage = i < view.stage_of_rank.size() ? view.stage_of_rank[i] : -1;
    const int32_t place = stage >= 0 ? stage : static_cast<int32_t>(rank / ranks_per_stage);
    sums[place] += all[i];
    counts[place] += 1;
  }
  for (auto& [place, sum] : sums)
    sum *= 1 / (counts[place] * view.num_steps());
  return sums;
}

/// "optimization-sweep-h200" of optimization-sweep-h200/<model>/<name>.
std::string sweep_of(Path place) {
  std::error_code ignored;
  if (place.empty()) return "";
  place = std::filesystem::absolute(place, ignored).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();  // "name/"
  return place.parent_path().parent_path().filename().string();
}

/// A recording of the paper's artifact knows its job by the name of its folder.
void name_by_artifact(PaperJob& job, const run::Run& run, const metrics::Metrics& metrics,
                      const std::string& name) {
  const auto devices = static_cast<int64_t>(run.devices.size());
  const int64_t ranks = std::max<int64_t>(devices, metrics::job_ranks_of(run));
  const std::string& sweep = job.sweep;
  const auto says = [&](const char* word) { return sweep.find(word) != std::string::npos; };
  // CSV files name no device. The sweep does; else 32 are H200 and 64 H100.
  const bool is_h100 = says("-h100") || (!says("-h200") && ranks > 32);
  const bool trains = sweep != "lora" && sweep != "inference";
  const auto known = parse_artifact_name(name, !trains   ? ArtifactSweep::adapters
                                               : is_h100 ? ArtifactSweep::h100
                                                         : ArtifactSweep::h200);
  if (!known) return;
  if (!trains) job.task = sweep;
  job.model = known->model;
  job.layout = known->layout;
  job.variant = known->variant;
  job.microbatch = known->microbatch;
  job.pipeline = known->pipeline;
  job.ranks_per_stage = std::max<int64_t>(1, (is_h100 ? 64 : 32) / known->pipeline);
  if (devices > 0) job.machine = fmt::format("{} x {}", devices, is_h100 ? "H100" : "H200");
  if (!job.efficiency && metrics.energy_j && metrics.step_time && *metrics.energy_j > 0)
    job.efficiency = artifact_batch / (*metrics.step_time / unit::s) / (*metrics.energy_j / 1e6);
}

}  // namespace

PaperJob paper_job(const run::Run& run, metrics::Metrics metrics, const std::string& name,
                   const Path& place) {
  PaperJob job;
  job.fits_memory = run.manifest.fits_memory;
  job.efficiency = metrics.samples_per_s_mj;
  job.layout = name;
  job.sweep = sweep_of(place);
  for (const run::Device& device : run.devices)
    job.gpus_per_node = &device == run.devices.data()
                            ? device.local + 1
                            : std::max<int64_t>(job.gpus_per_node, device.local + 1);
  if (run.manifest.job) {
    const spec::Job& spec = *run.manifest.job;
    job.model = spec.model.name;
    const std::string label = answers::group_label(spec);
    const std::size_t on = label.find(" on ");
    job.machine = on == std::string::npos ? "" : label.substr(on + 4);
    job.layout = answers::configuration_label(spec);
    if (spec.task != spec::Task::pretrain) job.task = spec::name_of(spec.task);
    spec::Job pretraining = spec;
    pretraining.task = spec::Task::pretrain;
    job.variant = answers::variant_label(pretraining);  // without the task
    job.microbatch = spec.plan.micro_batch_size;
    job.pipeline = spec.plan.pipeline_parallel_size;
    job.gpus_per_node = spec.cluster.gpus_per_node;
    job.ranks_per_stage =
        std::max<int64_t>(1, spec.world_size() / std::max<int64_t>(1, job.pipeline));
  }
  if (!run.manifest.job) name_by_artifact(job, run, metrics, name);
  if (!run.timeline.empty() && job.fits_memory) job.kernels = kernels_of(run, job.ranks_per_stage);
  job.metrics = std::move(metrics);
  return job;
}

}  // namespace triplepoint::report
