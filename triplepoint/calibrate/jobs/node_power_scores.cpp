// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/jobs/node_power_scores.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "triplepoint/calibrate/jobs/job_rows.h"
#include "triplepoint/calibrate/tables/calibration_file.h"
#include "triplepoint/power/power.h"
#include "triplepoint/sim/device_phase.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::calibrate {
namespace {

constexpr std::array<std::string_view, 7> own_columns = {
    "benchmark", "measured_at", "run_s", "node_mean_w", "node_p50_w", "energy_kwh", "energy_nodes"};

/// Levels of jobs that several rows have in common.
class Predictor {
 public:
  Predictor(const CsvTable& table, const spec::Library& library)
      : table_(table), library_(library) {}
  const Result<NodeLevels>& levels(const JobRow& row) {
    return get_or_make(known_, row.text, [&] { return predict(row); });
  }

 private:
  Result<NodeLevels> predict(const JobRow& row) const {
    std::vector<std::string> notes;
    return node_levels(TPT_TRY(job_of(row, table_.name(), library_, notes)));
  }

  const CsvTable& table_;
  const spec::Library& library_;
  std::map<std::string, Result<NodeLevels>> known_;
};

void score_row(TableScores& scores, const RunProtocol& protocol, const JobRow& row,
               const Cells& cells, const NodeLevels& levels) {
  const bool supplied = cells.text("measured_at") == "supplied";
  const Seconds length = cells.number_or("run_s", 0) * unit::s;
  const NodePhases phases = phases_of(protocol, cells.text("benchmark"), levels.step,
                                      supplied ? levels.supplied : levels.wall, length);
  const Watts mean = phases.mean_w() * unit::W;
  const auto add = [&](const char* quantity, double ours) {
    if (const auto measured = cells.number(quantity))
      scores.scored.push_back({.row_id = row.row_id,
                               .family = row.family,
                               .quantity = quantity,
                               .measured = *measured,
                               .predicted = ours,
                               .notes = row.assumptions});
  };
  add("node_mean_w", mean / unit::W);
  add("node_p50_w", phases.median_w());
  add("energy_kwh", cells.number_or("energy_nodes", 1) * (mean * length) / unit::kWh);
}

struct Evaluation {
  double seconds = 0, watts = 0;
};

Evaluation evaluation_of(const RunProtocol::Benchmark& benchmark, double own_s,
                         const NodeStep& step, const NodeLevels::Side& side) {
  const double length = step.time / unit::s, host = std::min(step.host / unit::s, 0.5 * length);
  const double busy = side.busy / unit::W, rest = side.idle / unit::W;
  const double at_work = (busy * length - rest * host) / (length - host);
  const double forward = benchmark.forward_share * (length - host);
  const double one = forward + own_s;
  return {std::ceil(benchmark.evaluated / step.batch) * one,
          (forward * at_work + own_s * rest) / one};
}

/// The evaluations of the time that is left, which begins and ends with one.
double evaluating_seconds(double left, double evaluation, double between) {
  if (left <= evaluation) return left;
  return evaluation * (1 + (left - evaluation) / (evaluation + between));
}

Watts busy_devices(const run::Run& run, int64_t nodes) {
  double watts = 0;
  for (const run::DeviceSummary& device : run.summaries)
    watts += device.power_mean_w.value_or(0);
  return watts / as_real(nodes) * unit::W;
}

Watts idle_devices(const spec::Job& job) {
  spec::GpuLoad rest;
  rest.duration = 1 * unit::s;
  const Celsius cool = job.chassis().inlet + 15 * unit::K;
  return as_real(job.cluster.gpus_per_node) *
         power::gpu_power(*job.cluster.gpu.power, rest, 1, cool, {});
}

/// At work the fans are where the devices' heat brings them, at rest where the chassis leaves them.
NodeLevels levels_of(const spec::Job& job, Watts busy) {
  const spec::Cluster& node = job.cluster;
  const spec::Chassis chassis = job.chassis();
  const Watts working = sim::typical_node_power(job, busy / as_real(node.gpus_per_node));
  const Watts resting =
      power::node_power(node, chassis, idle_devices(job), chassis.fan_floor, 0).total();
  const double supplied = node.host.conversion_efficiency;
  return {.wall = {working, resting}, .supplied = {supplied * working, supplied * resting}};
}

NodeStep step_of(const spec::Job& job, const run::Run& run) {
  if (run.steps.empty()) return {};
  return {.time = run.steps.back().end - run.steps.back().begin,
          .host = job.stack.step_overhead,
          .batch = as_real(job.plan.global_batch_size)};
}

}  // namespace

Result<TableScores> score_node_power(const CsvTable& table, const ScoreContext& context) {
  TableScores scores{.table = "node-power", .rows = static_cast<int64_t>(table.rows())};
  const RunProtocol protocol = TPT_TRY(load_run_protocol(context.library));
  const std::vector<JobRow> rows = TPT_TRY(read_job_rows(table, own_columns));
  Predictor predictor(table, context.library);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (!rows[r].fault.empty()) {
      scores.skip(rows[r].row_id, rows[r].fault);
      continue;
    }
    const Result<NodeLevels>& levels = predictor.levels(rows[r]);
    if (levels)
      score_row(scores, protocol, rows[r], Cells(table, r), *levels);
    else
      scores.skip(rows[r].row_id, levels.error().what);
  }
  return scores;
}

const RunProtocol::Benchmark* RunProtocol::find(const std::string& benchmark) const {
  return find_in(benchmarks, benchmark, &Benchmark::name);
}

Result<RunProtocol> load_run_protocol(const spec::Library& library) {
  const std::string file = "mlperf_power.toml";
  auto protocol = TPT_TRY(read_calibration<RunProtocol>(library, file, "run"));
  protocol.benchmarks =
      TPT_TRY(read_calibration<std::vector<RunProtocol::Benchmark>>(library, file, "benchmark"));
  return protocol;
}

double NodePhases::mean_w() const {
  double joules = 0, seconds = 0;
  for (const Part& part : {rest, training, evaluating, mixed}) {
    joules += part.seconds * part.watts;
    seconds += part.seconds;
  }
  return seconds > 0 ? joules / seconds : training.watts;
}

double NodePhases::median_w() const {
  std::array parts = {rest, training, evaluating, mixed};
  std::ranges::sort(parts, {}, &Part::watts);
  double half = sum_of(parts, [](const Part& part) { return 0.5 * part.seconds; });
  for (const Part& part : parts) {
    if (part.seconds > 0 && half <= part.seconds) return part.watts;
    half -= part.seconds;
  }
  return training.watts;
}

NodePhases phases_of(const RunProtocol& protocol, const std::string& name, const NodeStep& step,
                     const NodeLevels::Side& side, Seconds length) {
  NodePhases phases;
  phases.rest.watts = side.idle / unit::W;
  phases.training.watts = side.busy / unit::W;
  double left = std::max(0.0, length / unit::s);
  const auto take = [&](double& seconds, double wanted) {
    const double taken = std::min(left, wanted);
    seconds += taken;
    left -= taken;
  };
  take(phases.rest.seconds, protocol.start_up / unit::s);
  const RunProtocol::Benchmark* benchmark = protocol.find(name);
  if (!benchmark || step.time <= Seconds()) {
    take(phases.training.seconds, left);
    return phases;
  }
  const double per_sequence = (step.time / unit::s) / step.batch;
  take(phases.training.seconds, benchmark->first * per_sequence);
  take(phases.rest.seconds, benchmark->pause / unit::s);
  const Evaluation one = evaluation_of(*benchmark, protocol.evaluation_host / unit::s, step, side);
  const double evaluating =
      evaluating_seconds(left, one.seconds, benchmark->between * per_sequence);
  const double between = left - evaluating;
  if (one.seconds >= 2 * (protocol.reading / unit::s)) {
    phases.evaluating = {evaluating, one.watts};
    phases.training.seconds += between;
  } else if (left > 0) {
    phases.mixed = {left, (evaluating * one.watts + between * phases.training.watts) / left};
  }
  return phases;
}

Result<NodeLevels> node_levels(const spec::Job& job) {
  if (!job.cluster.gpu.power || !job.cluster.gpu.thermal || !job.cluster.gpu.governor)
    return error("{} has no model of power and heat", job.cluster.gpu.name);
  const run::Run run = sim::simulate(job, {.timeline = false});
  if (!run.manifest.fits_memory)
    return error("the model predicts that the benchmark's configuration does not fit in memory");
  NodeLevels levels = levels_of(job, busy_devices(run, job.cluster.num_nodes));
  levels.step = step_of(job, run);
  return levels;
}

}  // namespace triplepoint::calibrate
