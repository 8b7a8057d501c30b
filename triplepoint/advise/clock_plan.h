// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "triplepoint/base/watch.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/advise/placement.h"
#include "triplepoint/answers/document.h"
#include "triplepoint/metrics/metrics.h"

namespace triplepoint::advise {

/// A step at thermal steady state under some limits, as it is simulated: the mean over drawn
/// machines (placement.h).
struct JudgedStep {
  Seconds time;
  Joules energy;         // in the scope in which energy counts
  Joules device_energy;  // of all devices
  // Of each machine, energy in the scope.
  std::vector<double> times, energies;  // s, J
  Celsius hottest;
  Watts mean;                       // of a device
  std::vector<double> clock_ratio;  // [device]: mean over the step
  std::vector<Watts> device_power;  // [device]: mean over the step
  std::vector<Watts> hungriest;     // [device]: mean power of its hungriest phase
};

/// One point of the frontier of time and energy: a clock that each device must not exceed.
struct ClockPoint {
  double allowed = 0;         // slowdown that was asked for, over the job as it is
  std::vector<Hertz> clocks;  // [device], to lock; empty: as it is
  std::vector<Watts> caps;    // [device], that hold the hungriest phase at about the same clock
  JudgedStep step;            // with the clocks locked
  JudgedStep capped;          // with the caps instead
  // Of `step`, over the job as it is: of time, of energy in the scope, of the devices' energy.
  double slowdown = 0, saving = 0, device_saving = 0;
  MachineGains speedups, savings;                 // of `step` on each machine
  double capped_slowdown = 0, capped_saving = 0;  // of `capped`
};

/// What a stage does in the job as it is, over all its replicas.
struct StageSlack {
  int64_t stage = 0;
  double worked = 0, waited = 0;          // shares of the step, mean over replicas
  Seconds forward_slack, backward_slack;  // the least of its passes, of the replica with most
  double lowest_member = 1;  // clock of the slowest device over that of the mean one, least of all
  int64_t slowest_device = 0;
  double working_clock = 1;    // clock over the highest while it works, as the governor has it
  double free_clock = 1;       // the same, of the lowest at which its passes take no longer
  bool replica_waits = false;  // for other replicas, longer than for other stages
};

struct ClockPlan {
  metrics::EnergyScope scope = metrics::EnergyScope::gpu;  // in which energy counts
  bool fits = true;
  JudgedStep baseline;               // the job as it is
  std::vector<ClockPoint> frontier;  // time rises, energy falls; the first costs no time
  std::vector<StageSlack> stages;
  std::string nothing;  // why no time can be kept and energy saved; empty: it can
};

struct ClockOptions {
  metrics::EnergyScope scope = metrics::EnergyScope::gpu;
  double most_slowdown = 0.1;
  int threads = 1;
  Watch watch = {};
};

/// How far a plan that must not slow a job down may miss that: the schedule's own tolerance. A
/// stage is passed through once at the begin and the end of each step also by those who set the
/// pace, so a static clock below its highest always costs some microseconds.
inline constexpr double schedule_tolerance = 1e-3;

/// Clocks of each device that save energy, for a ladder of slowdowns from none on.
///
/// In a pipeline most devices wait for others: for a stage with more layers, for the slowest member
/// of their tensor-parallel group, for a hotter replica. What waits may run slower. For each
/// slowdown the clocks of every pipeline's stages are lowered along its critical path
/// (advise/pass_graph.h); heat, leakage and each board's own governor are in the curves, and the
/// simulator judges the outcome at thermal steady state. A point that breaks its promise there is
/// made tighter, or left out. The frontier keeps what no other point beats in time and in energy of
/// the scope: hosts and fans draw on for as long as steps are.
///
/// In the manner of Perseus (Chung et al., SOSP 2024), which sets the clock before each pass; here
/// a device keeps one clock, as nvidia-smi -lgc sets it. Holds for training and for jobs that fit.
ClockPlan plan_clocks(const spec::Job& job, const ClockOptions& options);

/// Why a stage gets a clock that is lower by this share of the one it works at (0: none), in words:
/// the first cause that covers most of it.
std::string reason_of(const ClockPlan& plan, const StageSlack& stage, double lowered);

/// One row per rank: where it sits, what clock and cap it gets, what it drew and will draw.
std::string clock_csv(const spec::Job& job, const ClockPlan& plan, const ClockPoint& point);

/// A shell script that sets the clocks of the node whose number it is given, power caps as comments
/// beside them: nvidia-smi for NVIDIA, amd-smi for AMD. To be read first; nothing here runs it.
std::string clock_script(const spec::Job& job, const ClockPlan& plan, const ClockPoint& point);

/// The point that saves most energy in the plan's scope and is no slower than asked; null where
/// none saves min_reported_gain.
const ClockPoint* chosen_point(const ClockPlan&, double slowdown);

/// What each point of the frontier saves and costs (point 0 is the job as it is); clocks, power and
/// slack of each stage, today and with the chosen point's clocks (null: none was chosen).
answers::Document clock_answer(const spec::Job&, const ClockPlan&, const ClockPoint* chosen);

}  // namespace triplepoint::advise
