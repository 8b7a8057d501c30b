// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/advise/thermal_groups.h"
#include "triplepoint/metrics/metrics.h"

namespace triplepoint::advise {

/// Devices of a job by coldness: what placements are made of.
struct ColdMap {
  std::vector<size_t> group;  // per device of the cluster (node by node); 0: coldest
  size_t groups = 1;
  std::vector<double> node_effect;  // per node: warmer than the mean node; same unit for all

  /// Devices of a node, coldest group first, inside of a group by index.
  std::vector<int64_t> cold_first(int64_t node, int64_t gpus_per_node) const;
};
/// For a job of as many devices as were sampled; samples of one node stand for every node.
ColdMap cold_map(const ThermalGroups&, const std::vector<ThermalSample>& devices, const spec::Job&);

/// Which stages a node's ranks belong to, in the order of stages.
struct NodeStages {
  int64_t node = 0;
  std::vector<int64_t> stages;               // distinct, ascending
  std::vector<std::vector<int64_t>> locals;  // of each: the node's local ranks
};
/// Of each block of gpus_per_node ranks, in the order of blocks.
std::vector<NodeStages> stages_of_nodes(const spec::Job&);

/// Whether slots can help: some node holds ranks of more than one stage.
bool mixes_stages(const spec::Job&);

/// The same job with the devices of each node dealt out coldest first: to the stages of the node in
/// order of `preference[block]` (indices into NodeStages::stages; empty: ascending).
spec::Plan place_cold_first(const spec::Job&, const ColdMap&,
                            const std::vector<std::vector<size_t>>& preference);

/// Mean over each stage's devices, of those that have a value.
std::vector<double> stage_means(const spec::Job&, const std::vector<double>& per_device);

/// Mean group of a stage's devices: 0 where all are of the coldest group.
std::vector<double> coldness_of_stages(const spec::Job&, const ColdMap&);

/// Layers of each part of the model as the plan has them, written out.
std::vector<int64_t> layers_of(const spec::Job&);

/// The paper's asymmetric layers: stages on colder devices than the mean get `extra` more in each
/// chunk, those on hotter ones as many less; what does not add up goes to the last part. Empty if a
/// part would be left without a layer.
///
/// 80 layers on 4 stages: 21, 19, 21, 19; 96 on 8: 13, 11, 13, 11, ... Source: arXiv 2509.10371,
/// thermal-aware pipeline scheduling.
std::vector<int64_t> shift_layers(const spec::Job&, const std::vector<double>& coldness,
                                  int64_t extra);

/// Plans whose `device_order` is the identity, or alike in all nodes, say so in the short form.
void shorten_orders(spec::Plan&, const spec::Job&);

/// One pipeline stage of a placement at thermal steady state.
struct PlacedStage {
  int64_t stage = 0, layers = 0;
  double coldness = 0;  // mean group of its devices; 0: all of the coldest
  double busy_s = 0;    // kernels of a step, without waiting
  double clock_mhz = 0, temperature_c = 0, power_w = 0;
};

/// What the simulator says of a placement.
struct PlacementOutcome {
  bool fits = false;     // in memory; nothing else is known if not
  double step_time = 0;  // s
  double tokens_per_s = 0;
  double tokens_per_j = 0;      // of the scope in which energy counts
  double samples_per_s_mj = 0;  // MJ of the devices
  double energy = 0;            // J, all devices, one step
  double gap = 0;               // K: mean of the hottest group less that of the coldest
  double variance = 0;          // K2, of the devices' mean temperatures
  double mean_c = 0, peak_c = 0;
  double throttled = 0;  // share of time below the requested clock
  std::vector<PlacedStage> stages;
};
PlacementOutcome judge_placement(const spec::Job&, const ColdMap&,
                                 metrics::EnergyScope = metrics::EnergyScope::gpu);
/// The step alone, s; nothing if it does not fit in memory.
std::optional<double> judge_time(const spec::Job&);

/// The stage that works longest, for which the others wait.
const PlacedStage& critical_stage(const PlacementOutcome&);

/// Machines that advice is judged on where the real one is not measured.
inline constexpr int64_t drawn_machine_count = 16;
/// A mean gain below this is not worth a setting on every device.
inline constexpr double min_reported_gain = 5e-4;

/// Whether two machines of this kind differ: boards, coolers, hosts or inlets are spread.
bool has_spread(const spec::Job&);

/// The job on machines of its kind, drawn with the seeds 1 to `count`; the job alone where nothing
/// is spread. Faults, limits and slots are the job's.
std::vector<spec::Job> drawn_machines(const spec::Job&, int64_t count = drawn_machine_count);

/// The job on the machine that is expected where nothing was measured: mean boards, coolers, hosts
/// and inlets. Faults, limits and slots are the job's.
spec::Job on_expected_machine(spec::Job);

/// The same job on GPUs that are all cooled alike: slots without preheating, no worse heat paths.
spec::Job with_equal_slots(spec::Job);

/// The same job with clocks in an eighth of the governor's steps, so that a difference of less than
/// a clock step (nearly a per cent of a critical stage) is not rounded to one.
spec::Job with_fine_clocks(spec::Job);

/// What a change gains on each of some machines, as a share of what it changes.
struct MachineGains {
  int64_t machines = 0;  // 0: not judged on drawn machines
  double mean = 0, worst = 0;
  int64_t gaining = 0;  // machines on which it gains at all
};
MachineGains summarize_gains(const std::vector<double>& gains);

}  // namespace triplepoint::advise
