// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/run/run.h"
#include "triplepoint/spec/job.h"

namespace triplepoint::metrics {

/// Kernel seconds by class, as the paper's figures 3 and 10 stack them; waiting inside collectives
/// included.
struct KernelSeconds {
  Seconds compute;  // GEMM + attention
  Seconds send_recv, all_gather, reduce_scatter, all_reduce, all_to_all;
  Seconds memory;  // norms, elementwise, copies, optimizer
  Seconds other;
  Seconds waiting;  // part of the communication above
  Seconds total() const;
  KernelSeconds& operator+=(const KernelSeconds&);
  KernelSeconds& operator*=(double);
  Seconds communication() const;
};
/// Of every rank over the whole timeline, from rank 0 on. Kernels count by the span's kind and
/// collective; a broadcast counts as send_recv.
std::vector<KernelSeconds> kernel_seconds_of_ranks(const run::Timeline&);

/// One class of kernels.
struct KernelPart {
  const char *key, *label;  // "all_reduce", "all-reduce"
  Seconds (*of)(const KernelSeconds&);
};
/// The classes that add up to the total.
std::span<const KernelPart> kernel_classes();
/// These, the waiting inside communication, and the total.
std::span<const KernelPart> kernel_parts();

struct MessageBucket {
  Bytes upper;  // messages up to this size
  int64_t count = 0;
  Bytes bytes;
};
struct LinkUse {
  std::optional<Bytes> scale_up, scale_out;  // sent, mean per device
  std::optional<double> scale_up_utilization,
      scale_out_utilization;  // of the datasheet bandwidth, over the step
  std::vector<double> scale_up_per_gpu_bytes, scale_out_per_gpu_bytes;  // sent, one step
  // One step; of recordings that have these counters. PCIe carries what goes to the host and to the
  // NICs.
  std::vector<double> scale_up_received_per_gpu_bytes, pcie_received_per_gpu_bytes,
      pcie_sent_per_gpu_bytes;
  std::vector<MessageBucket> messages;
};

/// Standard deviations over GPUs, as the MICRO'25 artifact has them: of each node's GPUs around
/// their mean (the mean of these over the nodes), and of the nodes' means. Absent where one node or
/// one GPU a node is known.
struct Spread {
  std::optional<double> within_nodes, between_nodes;
};

/// What a rank's device does in a step: disjoint, and all of the step; mean over ranks. The first
/// that applies counts.
struct StepParts {
  Seconds computing;  // a kernel runs
  Seconds copying;
  Seconds exposed_communication;  // a collective transfers
  Seconds waiting;                // a collective waits for a late peer, a stage for a slower one
  Seconds bubble;  // the pipeline's schedule leaves nothing to do; zero if no pipeline is known
  Seconds gaps;    // nothing runs: the host launches, loads, does the optimizer's Python
  Seconds total() const {
    return computing + copying + exposed_communication + waiting + bubble + gaps;
  }
};

struct Stage {
  int32_t stage = 0;
  KernelSeconds kernels;  // mean over the stage's ranks
  std::optional<double> power_mean_w, die_mean_c, sm_clock_mean_mhz;
};

/// Spans in which a GPU clearly cools down (run/bursts.h), means over the GPUs that know. Counts
/// are of one step, of the whole recording where it has no steps.
struct CoolDowns {
  std::optional<double> count, share_of_time;
  std::optional<Seconds> mean_length;    // absent: there are none
  std::optional<double> largest_fall_k;  // of any GPU below its level, however short
  std::vector<double> share_per_gpu;
};

/// How unevenly GPUs draw power (run/bursts.h), means over the GPUs that know.
struct Bursts {
  std::optional<double> swing_w, ramp_up_w_per_s, ramp_down_w_per_s;
  std::optional<double> duty;                // share of time close to the power limit
  std::optional<double> microbatch_swing_w;  // as the run's producer says it
  std::vector<double> swing_per_gpu_w;
};

/// Where energy is counted, each with all that the one before leaves out: what the GPUs draw; what
/// the nodes draw at their supplies; what the site draws (nodes x PUE).
enum class EnergyScope { gpu, node, site };
inline constexpr std::array<std::string_view, 3> energy_scopes = {"gpu", "node", "site"};
/// "of the GPUs", "of the nodes", "at the site".
std::string_view scope_text(EnergyScope);

/// Everything the tables, JSON and reports show. Absent: the run does not know it. Vectors over
/// GPUs are in the order of the run's devices and empty if no device knows; one that does not is
/// not-a-number.
struct Metrics {
  std::optional<Seconds> step_time;
  std::optional<double> tokens_per_second, tokens_per_second_per_gpu, samples_per_second;
  std::optional<double> model_tflops_per_gpu, mfu, hfu;
  // Share of the step in which no rank has work because of the schedule; see bubble.cpp.
  std::optional<double> bubble_fraction;
  KernelSeconds kernels;  // mean over ranks
  std::vector<Stage> stages;
  std::optional<StepParts> parts;
  // Mean over ranks, one step. exposed: as in `parts`; idle: no kernel runs; launch_gaps: its part
  // inside passes (the host is late).
  std::optional<Seconds> exposed_communication, overlapped_communication, idle, launch_gaps;
  LinkUse links;
  std::optional<double> power_mean_w, power_peak_w, power_kernel_peak_w;
  std::vector<double> power_per_gpu_w, power_peak_per_gpu_w;
  std::optional<double> energy_j, samples_per_s_mj, node_energy_j, site_energy_j;
  std::optional<double> joules_per_token;
  EnergyScope energy_scope = EnergyScope::gpu;  // of the joules per token
  std::optional<double> temperature_mean_c, temperature_peak_c;
  std::vector<double> temperature_per_gpu_c, temperature_peak_per_gpu_c;
  std::optional<double> hot_mean_c, cool_mean_c, hot_over_cool, hottest_over_coolest;
  std::vector<int32_t> hot_slots;  // ascending; the others are cool
  Spread power_spread_w, temperature_spread_c, clock_spread_mhz;
  // Hottest minus coolest die of a package of several, the mean over packages.
  std::optional<double> package_difference_c;
  std::optional<double> memory_mean_c, memory_peak_c;  // of the GPU's memory
  std::vector<double> memory_per_gpu_c;
  // Share of the time in which a kernel sits on the GPU, as NVML's utilization.
  std::optional<double> utilization;
  std::vector<double> utilization_per_gpu, memory_power_per_gpu_w;  // the latter of recordings
  Spread memory_spread_c, utilization_spread;
  CoolDowns cool_downs;
  Bursts bursts;
  std::optional<double> sm_clock_mean_mhz;
  std::optional<double> clock_in_passes_mhz;  // mean while passes run, as the run's producer says
  std::vector<double> sm_clock_per_gpu_mhz, sm_clock_min_per_gpu_mhz;
  std::optional<double> hot_clock_mean_mhz, cool_clock_mean_mhz;
  // Of the nodes whose devices differ in clock: share whose slowest device is in a hot slot.
  std::optional<double> slowest_in_hot_slot;
  // What power cap and heat took from the clock, as the run's producer says it.
  std::optional<double> clock_lost_to_power_mhz, clock_lost_to_temperature_mhz;
  std::optional<Seconds> step_without_heat;  // with every die as cool as its inlet, as it says it
  std::map<std::string, double> throttle;    // reason -> share of time, mean over devices
  std::map<std::string, std::vector<double>> throttle_per_gpu;  // reasons that occur
  // Share of time with any reason, reasons at once counted once: by the polled reasons, at least
  // the longest reason's share and at most all one after the other. Not-a-number where a device
  // knows neither reasons nor counters.
  std::vector<double> throttled_per_gpu;
  std::map<std::string, double> energy_ledger_j;
  std::vector<run::Bottleneck> bottlenecks;  // beyond the noise; see run/bottlenecks.cpp
};

/// Of one step: the mean over the steps which the timeline shows in detail (all steps without a
/// timeline).
Metrics measure(const run::Run&);

/// Counts joules per token in this scope, or in the widest below it whose energy is known.
void count_energy_at(EnergyScope, Metrics&);

/// Speed of a run that answers instead of training. A run of prefill knows the first two, a run of
/// decode the last two; what is not inference knows none.
///
///   prompt_tokens_per_s      = tokens of a pass / step time
///   time_to_first_token      = step time: until every sequence of the batch has its first token
///   generated_tokens_per_s   = sequences of the batch / step time
///   time_per_output_token    = step time: a pass gives each sequence one token
///
/// Holds for static batches: no sequence joins or leaves between two passes. Source:
/// docs/models/inference.md.
struct InferenceSpeed {
  std::optional<double> prompt_tokens_per_s, generated_tokens_per_s;
  std::optional<Seconds> time_to_first_token, time_per_output_token;
};
InferenceSpeed inference_speed(spec::Task task, const Metrics& metrics);

/// Share of time with any reason for a clock below the requested one, mean over the devices that
/// know it; nothing where none does.
std::optional<double> throttled_share(const Metrics&);
/// By one reason: 0 where devices know their reasons and never had this one.
std::optional<double> throttled_share(const Metrics&, std::string_view reason);

/// Is the run known to be prefill or decode?
bool is_inference(const run::Run&);

// What follows from a job's plan. Absent where it does not divide: results are shown of invalid
// jobs as well.

std::optional<int64_t> data_parallel_size(const spec::Job&);
std::optional<int64_t> num_microbatches(const spec::Job&);

/// Index of the stage whose GPU needs most memory; 0 without any.
size_t fullest_stage(std::span<const run::MemoryUse> stages);

/// Numbers of single devices stay in the run where there are more: 100,000 of them are not readable
/// as text, and a study of such jobs would write hundreds of megabytes.
inline constexpr size_t most_listed_devices = 4096;

/// Compute seconds of the pipeline stage that computes longest; absent without stages.
std::optional<Seconds> compute_of_slowest_stage(const Metrics&);

/// Nodes that one expert-parallel group spans: 1 if its all-to-all stays inside a node.
std::optional<int64_t> expert_group_nodes(const spec::Job&);

/// Pipeline stage of each of the job's ranks; empty where the plan does not lay out.
std::vector<int32_t> stages_of_ranks(const spec::Job&);

}  // namespace triplepoint::metrics
