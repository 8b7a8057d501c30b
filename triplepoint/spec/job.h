// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/cluster.h"
#include "triplepoint/spec/fault.h"
#include "triplepoint/spec/model.h"
#include "triplepoint/spec/plan.h"
#include "triplepoint/spec/stack.h"

namespace triplepoint::spec {

enum class Task { pretrain, lora, prefill, decode };

/// Does the model answer instead of learn? No backward pass, no gradients, no optimizer.
constexpr bool is_inference(Task task) {
  return task == Task::prefill || task == Task::decode;
}

/// The room the machines stand in, and what its operator set.
struct Environment {
  std::optional<Celsius> ambient;    // inlet of air or coolant; default: the chassis' own
  std::optional<Cooling> cooling;    // default: the chassis' own
  std::optional<Watts> power_limit;  // of each device; default: its TDP
  // One entry per device of the cluster, node by node; empty: no individual limit.
  std::vector<Watts> device_power_limits;
  std::vector<Hertz> device_clock_limits;  // locked SM clocks (nvidia-smi -lgc)
  // Factors of each board's thermal resistance; 0, or empty: drawn from the GPU's variability.
  std::vector<double> device_resistances;
  uint64_t seed = 1;  // of board and node spread
  // Power usage effectiveness of the site: facility power over IT power; default: not known.
  std::optional<double> pue;
  std::vector<Fault> faults;  // disturbances during a run
  friend bool operator==(const Environment&, const Environment&) = default;
};

/// Everything that decides what happens: the input of `build_work_graph` and `simulate`.
struct Job {
  std::string name;
  Task task = Task::pretrain;  // default: lora where the plan has adapters
  Model model;                 // by name or in full
  Cluster cluster;             // by name or in full
  Stack stack;                 // by name or in full; default: megatron-core, or vllm to answer
  Plan plan;
  std::optional<Records> records;  // lengths of what it trains on, by name or in full; default:
                                   // every record fills its sequence
  Environment environment;
  std::string origin;              // file it was read from, or "command line"
  std::vector<std::string> notes;  // what the reader had to assume

  friend bool operator==(const Job&, const Job&) = default;
  int64_t world_size() const { return cluster.num_gpus(); }
  int64_t data_parallel_size() const { return world_size() / plan.model_parallel_size(); }
  int64_t num_microbatches() const {
    return plan.global_batch_size / (plan.micro_batch_size * data_parallel_size());
  }
  Watts power_limit() const {
    return environment.power_limit.value_or(cluster.gpu.tdp.value_or(Watts()));
  }
  /// The node's chassis with the environment's cooling and ambient.
  Chassis chassis() const {
    const bool own =
        environment.cooling.value_or(cluster.chassis.cooling) == cluster.chassis.cooling;
    Chassis chosen = own ? cluster.chassis : cluster.liquid_chassis.value_or(cluster.chassis);
    chosen.inlet = environment.ambient.value_or(chosen.inlet);
    return chosen;
  }
};

/// Why a job cannot run as written. Codes are stable words for tables and tests.
enum class DiagnosisCode {
  layers_not_divisible,   // num_layers % (PP x VPP)
  world_not_divisible,    // world % (TP x PP x CP)
  batch_not_divisible,    // global % (micro x DP), or fewer than one microbatch
  experts_not_divisible,  // num_experts % EP, DP % EP
  heads_not_divisible,    // heads % TP
  head_dimension,         // hidden / heads is no usual head dimension
  tensor_overlap_without_sequence_parallel,
  node_count_mismatch,  // the job script and the configuration disagree
  inert_option,         // an option that changes nothing here
  unsupported,          // not modelled, or a number no source states
  inconsistent          // other contradictions
};

struct Diagnosis {
  enum class Severity { error, warning };
  DiagnosisCode code = DiagnosisCode::inconsistent;
  Severity severity = Severity::error;
  std::string what;  // "<problem> (<why>); <what to try>"
  friend bool operator==(const Diagnosis&, const Diagnosis&) = default;
};
/// Whether the layers' trunk is fp32: asked for by the plan, or promoted by the stack's FSDP.
bool has_fp32_residual(const Job&);

std::string_view name_of(DiagnosisCode);
std::string_view name_of(Task);

/// All that is wrong or odd with a job. A job without errors can be simulated.
std::vector<Diagnosis> diagnose(const Job&);
bool has_errors(const std::vector<Diagnosis>&);

/// Errors of a job as one message; nothing if there are none.
Result<void> require_valid(const Job& job);

/// An error if the job answers instead of training: for what only training has. `what` is a
/// sentence's beginning: "placements are searched".
Result<void> require_training(const Job& job, std::string_view what);

/// Where Megatron-Core refuses --overlap-moe-expert-parallel-comm, its condition that this plan
/// breaks, as in "without full recompute"; empty where it starts.
std::string_view broken_condition_of_expert_overlap(const Model&, const Plan&);

}  // namespace triplepoint::spec
