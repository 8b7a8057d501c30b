// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/node_power_runs.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/spec/dotted.h"
#include "triplepoint/spec/load.h"
#include "triplepoint/spec/table_reader.h"

#include "triplepoint/calibrate/calibration_file.h"
#include "triplepoint/calibrate/machine_names.h"
#include "triplepoint/calibrate/table_words.h"
#include "triplepoint/power/gpu_power.h"
#include "triplepoint/power/node_power.h"
#include "triplepoint/sim/device_phase.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::calibrate {
namespace {

bool runs(const spec::TomlValue& job, const NodeRun& run) {
  const spec::TomlValue *benchmark = job.find("benchmark"), *gpu = job.find("gpu"),
                        *gpus = job.find("gpus");
  return benchmark != nullptr && benchmark->text == run.benchmark && gpus != nullptr &&
         gpus->integer == run.gpus && (gpu == nullptr || mentions(run.gpu, gpu->text));
}

/// The [[job]] of this run, without the words that it was found by.
Result<spec::TomlValue> published_job(const NodeRun& run, const spec::Library& library) {
  const CalibrationFile file = TPT_TRY(CalibrationFile::read(library, "mlperf_power.toml"));
  const spec::TomlValue* jobs = TPT_TRY(file.find(file.root(), "job"));
  for (spec::TomlValue job : jobs->items) {
    if (!runs(job, run)) continue;
    std::erase_if(job.entries, [](const spec::TomlEntry& entry) {
      return entry.key == "benchmark" || entry.key == "gpu" || entry.key == "gpus";
    });
    return job;
  }
  return error(
      fmt::format("the benchmark '{}' on {} {} is not modelled (no configuration of it is "
                  "in data/calibrations/mlperf_power.toml)",
                  run.benchmark, run.gpus, run.gpu));
}

bool is_cooled_by_liquid(const NodeRun& run) {
  return mentions(run.cooling, "liquid") || mentions(run.cooling, "water") ||
         mentions(run.cooling, "immersion");
}

/// Where the library holds a machine of this GPU in this coolant, it is that one.
Result<void> take_machine(spec::Job& job, const NodeRun& run, const spec::Library& library) {
  job.cluster = TPT_TRY(usual_machine(library, run.gpu, run.gpus));
  if (mentions(run.cooling, "immersion") && job.cluster.gpu.name == "h100") {
    const int64_t nodes = job.cluster.num_nodes;
    job.cluster = TPT_TRY(spec::load_cluster(library, "hgx-h100-immersion"));
    job.cluster.num_nodes = nodes;
  } else if (is_cooled_by_liquid(run) && job.cluster.liquid_chassis) {
    job.environment.cooling = spec::Cooling::liquid;
  }
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
  spec::TomlValue tree = TPT_TRY(published_job(run, library));
  const auto cluster = usual_cluster(gpu_named(run.gpu).value_or(""));
  if (!cluster) return error(fmt::format("no cluster of {} is in the library", run.gpu));
  spec::set_dotted(tree, "cluster", spec::cell_value(*cluster, tree.line));
  spec::ReadScope scope;
  scope.library = &library;
  scope.file = "mlperf_power.toml";
  spec::Job job = TPT_TRY(spec::read_job(scope, tree));
  if (auto taken = take_machine(job, run, library); !taken) return tl::unexpected(taken.error());
  for (const spec::Diagnosis& diagnosis : spec::diagnose(job))
    if (diagnosis.severity == spec::Diagnosis::Severity::error) return error(diagnosis.what);
  return job;
}

const Result<NodeLevels>& NodePredictor::levels(const NodeRun& run) {
  auto found = known_.find(run);
  if (found == known_.end()) found = known_.emplace(run, predict(run, library_)).first;
  return found->second;
}

}  // namespace triplepoint::calibrate
