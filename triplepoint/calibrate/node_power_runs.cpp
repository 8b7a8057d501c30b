// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/node_power_runs.h"

#include <array>

#include <fmt/format.h>

#include "triplepoint/calibrate/training_row.h"
#include "triplepoint/calibrate/training_rules.h"
#include "triplepoint/power/gpu_power.h"
#include "triplepoint/power/node_power.h"
#include "triplepoint/sim/device_phase.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::calibrate {
namespace {

/// Layouts that submissions published for so many GPUs of a kind: configuration files named
/// DGXH100_1x8x4xtp4pp1cp1, DGXH100_8x8x1xtp4pp1cp2, DGXB200_1x8x1xtp1pp1cp1,
/// DGXH100_64x8x128x4x8_mbs2 and the like. 0 GPUs: any number.
struct Layout {
  std::string_view benchmark, gpu;
  int64_t gpus, tensor, pipeline, virtual_pipeline, context, micro_batch, global_batch;
};
constexpr std::array layouts = {
    Layout{"llama2_70b_lora", "H100", 8, 4, 1, 1, 1, 1, 8},
    Layout{"llama2_70b_lora", "H100", 64, 4, 1, 1, 2, 1, 8},
    Layout{"llama2_70b_lora", "H100", 512, 4, 1, 1, 2, 1, 64},
    Layout{"llama2_70b_lora", "H200", 8, 1, 1, 1, 2, 1, 8},
    Layout{"llama2_70b_lora", "B200", 8, 1, 1, 1, 1, 1, 8},
    Layout{"bert", "", 8, 1, 1, 1, 1, 48, 384},
    Layout{"gpt3", "H100", 512, 4, 8, 6, 1, 2, 2048},
};

const Layout* layout_of(const NodeRun& run) {
  for (const Layout& layout : layouts)
    if (layout.benchmark == run.benchmark && layout.gpus == run.gpus &&
        mentions(run.gpu, layout.gpu))
      return &layout;
  return nullptr;
}

/// stack: how the submissions of this benchmark play their steps, which shows in a node's power
/// where steps are short.
struct Workload {
  std::string_view benchmark, model, workload;
  int64_t sequence;
  std::string_view stack;
};
constexpr std::array workloads = {
    Workload{"llama2_70b_lora", "Llama2-70B", "lora", 8192, "mlperf-loop"},
    Workload{"bert", "BERT-large", "pretrain", 512, "mlperf-graph"},
    Workload{"gpt3", "GPT-3 175B", "pretrain", 2048, "mlperf-loop"},
};

const Workload* workload_of(const NodeRun& run) {
  for (const Workload& workload : workloads)
    if (workload.benchmark == run.benchmark) return &workload;
  return nullptr;
}

TrainingRow row_of(const NodeRun& run, const Workload& workload, const Layout* layout) {
  TrainingRow row;
  row.row_id = fmt::format("{} on {} {}", run.benchmark, run.gpus, run.gpu);
  row.gpu = run.gpu;
  row.gpu_note = "cooling: " + run.cooling;
  row.model = workload.model;
  row.workload = workload.workload;
  row.framework = "MLPerf submission stack";
  row.precision = "FP8";
  row.sequence = workload.sequence;
  row.gpus = run.gpus;
  if (!layout) return row;
  row.tensor = layout->tensor;
  row.pipeline = layout->pipeline;
  row.virtual_pipeline = layout->virtual_pipeline;
  row.context = layout->context;
  row.micro_batch = layout->micro_batch;
  row.global_batch = layout->global_batch;
  return row;
}

/// Where the library holds a machine of this GPU in this coolant, it is that one.
Result<void> take_machine(spec::Job& job, const NodeRun& run, const spec::Library& library) {
  if (!mentions(run.cooling, "immersion") || !mentions(run.gpu, "H100")) return {};
  const int64_t nodes = job.cluster.num_nodes;
  job.cluster = TPT_TRY(spec::load_cluster(library, "hgx-h100-immersion"));
  job.cluster.num_nodes = nodes;
  job.environment.cooling.reset();
  return {};
}

Watts busy_devices(const run::Run& run, int64_t nodes) {
  double watts = 0;
  for (const run::DeviceSummary& device : run.summaries)
    watts += device.power_mean_w.value_or(0);
  return watts / static_cast<double>(nodes) * unit::W;
}

Watts idle_devices(const spec::Job& job) {
  spec::GpuLoad rest;
  rest.duration = 1 * unit::s;
  const Celsius cool = job.chassis().inlet + 15 * unit::K;
  return static_cast<double>(job.cluster.gpus_per_node) *
         power::gpu_power(*job.cluster.gpu.power, rest, 1, cool, {});
}

/// At work the fans are where the devices' heat brings them, at rest where the chassis leaves them.
NodeLevels levels_of(const spec::Job& job, Watts busy) {
  spec::Job cooled = job;
  cooled.cluster.chassis = job.chassis();
  cooled.environment.cooling.reset();
  const spec::Cluster& node = cooled.cluster;
  const Watts working =
      sim::typical_node_power(cooled, busy / static_cast<double>(node.gpus_per_node));
  const Watts resting =
      power::node_power(node, idle_devices(job), node.chassis.fan_floor, 0).total();
  const double supplied = node.host.conversion_efficiency;
  return {
      .wall = {working, resting}, .supplied = {supplied * working, supplied * resting}, .pace = {}};
}

NodePace pace_of(const spec::Job& job, const run::Run& played) {
  if (played.steps.empty()) return {};
  return {.step = played.steps.back().end - played.steps.back().begin,
          .host = job.stack.step_overhead,
          .batch = static_cast<double>(job.plan.global_batch_size)};
}

Result<NodeLevels> predict(const NodeRun& run, const spec::Library& library) {
  const spec::Job job = TPT_TRY(job_of(run, library));
  if (!job.cluster.gpu.power || !job.cluster.gpu.thermal || !job.cluster.gpu.governor)
    return error(fmt::format("{} has no model of power and heat", job.cluster.gpu.name));
  const run::Run played = sim::simulate(job, {.timeline = false});
  if (!played.manifest.fits_memory)
    return error("the benchmark's configuration does not fit in memory, says our model");
  NodeLevels levels = levels_of(job, busy_devices(played, job.cluster.num_nodes));
  levels.pace = pace_of(job, played);
  return levels;
}

}  // namespace

Result<spec::Job> job_of(const NodeRun& run, const spec::Library& library) {
  const Workload* workload = workload_of(run);
  if (!workload)
    return error(
        fmt::format("the benchmark '{}' is not modelled (no transformer training that the "
                    "library describes)",
                    run.benchmark));
  const TrainingRow row = row_of(run, *workload, layout_of(run));
  ResolvedRow resolved = TPT_TRY(resolve(row, library));
  resolved.job.stack = TPT_TRY(spec::load_stack(library, workload->stack));
  if (auto taken = take_machine(resolved.job, run, library); !taken)
    return tl::unexpected(taken.error());
  return std::move(resolved.job);
}

const Result<NodeLevels>& NodePredictor::levels(const NodeRun& run) {
  auto found = known_.find(run);
  if (found == known_.end()) found = known_.emplace(run, predict(run, library_)).first;
  return found->second;
}

}  // namespace triplepoint::calibrate
