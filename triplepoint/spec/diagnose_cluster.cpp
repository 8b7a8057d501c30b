// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "triplepoint/base/unit_text.h"

#include "triplepoint/spec/diagnose_parts.h"
#include "triplepoint/spec/job.h"
#include "triplepoint/spec/names.h"

namespace triplepoint::spec {
namespace {

using Code = DiagnosisCode;

// Far beyond what is built; time and memory of a prediction grow with them.
constexpr double most_clock_steps = 10'000;
constexpr int64_t most_compute_units = 1'000'000;
constexpr int64_t largest_tile = 4096;  // rows or columns
constexpr int64_t most_nics = 1024;     // of a node

class ClusterExamination : Findings {
 public:
  explicit ClusterExamination(const Job& job) : job_(job), plan_(job.plan) {}

  std::vector<Diagnosis> run() {
    gpu_numbers_are_known();
    rates_are_positive();
    if (!predicted_without_power(job_)) {
      heat_gets_away();
      clocks_are_steps();
    }
    cluster_is_whole();
    return all();
  }

 private:
  void needs(bool known, std::string_view what, std::string_view key,
             std::string_view instead = "another GPU",
             std::string_view why = "no source states it") {
    if (known) return;
    const std::string& gpu = job_.cluster.gpu.name;
    error(Code::unsupported,
          "the {} of {} is unknown ({}); choose {}, or add {} to {} with its source", what, gpu,
          why, instead, key, file_of(key, gpu));
  }

  /// "precision fp16, or another GPU": those that the GPU has a peak for.
  static std::string other_precisions(const Gpu& gpu) {
    std::vector<std::string_view> known;
    for (const Precision precision : {Precision::bf16, Precision::fp16, Precision::fp8,
                                      Precision::fp32, Precision::mxfp8, Precision::nvfp4})
      if (gpu.peak(precision)) known.push_back(enum_name(precision));
    if (known.empty()) return "another GPU";
    return fmt::format("precision {}, or another GPU", fmt::join(known, " or "));
  }

  /// Block formats share the peak of their bits.
  static std::string peak_key(Precision precision) {
    return precision == Precision::mxfp8   ? "gemm_mxfp8_share"
           : precision == Precision::nvfp4 ? "peak_fp4"
                                           : fmt::format("peak_{}", enum_name(precision));
  }

  static std::string file_of(std::string_view key, const std::string& gpu) {
    if (key == "[power]" || key == "[thermal]" || key == "[governor]")
      return fmt::format("calibrations/{}/{}.toml", gpu, key.substr(1, key.size() - 2));
    if (key.starts_with("gemm_")) return fmt::format("calibrations/{}/kernels.toml", gpu);
    return fmt::format("gpus/{}.toml", gpu);
  }

  void gpu_numbers_are_known() {
    const Gpu& gpu = job_.cluster.gpu;
    needs(gpu.peak(plan_.precision).has_value(),
          fmt::format("dense {} peak", enum_name(plan_.precision)), peak_key(plan_.precision),
          other_precisions(gpu), "its cores have none, or no source states it");
    needs(gpu.hbm_bandwidth.has_value(), "memory bandwidth", "hbm_bandwidth");
    needs(gpu.memory.has_value(), "memory size", "memory");
    if (predicted_without_power(job_)) return;
    needs(gpu.tdp.has_value(), "design power", "tdp");
    needs(gpu.max_clock.has_value(), "highest clock", "max_clock");
    needs(gpu.compute_units.has_value(), "number of compute units", "compute_units");
    needs(gpu.power.has_value(), "power model", "[power]");
    needs(gpu.thermal.has_value(), "thermal path", "[thermal]");
    needs(gpu.governor.has_value(), "clock governor", "[governor]");
  }

  void above_zero(std::string_view key, double value) {
    if (value > 0) return;
    error(Code::unsupported,
          "{} is {} (no work, data or heat would ever get through); set it above 0", key, value);
  }

  void counts_at_most(std::string_view key, int64_t value, int64_t most) {
    if (value >= 1 && value <= most) return;
    error(Code::unsupported, "{} is {} (it lies between 1 and {}); set it so", key, value, most);
  }

  void rates_are_positive() {
    const Gpu& gpu = job_.cluster.gpu;
    const KernelCoefficients& kernels = gpu.kernels;
    above_zero("gpu.peak", gpu.peak(plan_.precision).value_or(FlopsPerSecond(1)).in_base_units());
    above_zero("gpu.hbm_bandwidth", gpu.hbm_bandwidth.value_or(BytesPerSecond(1)).in_base_units());
    counts_at_most("gpu.compute_units", gpu.compute_units.value_or(1), most_compute_units);
    const std::pair<std::string_view, double> rates[] = {
        {"gemm_peak_share", kernels.gemm_peak_share},
        {"gemm_fp8_share", kernels.gemm_fp8_share},
        {"gemm_mxfp8_share", kernels.gemm_mxfp8_share.value_or(1)},
        {"gemm_fp4_share", kernels.gemm_fp4_share.value_or(1)},
        {"grouped_gemm_share", kernels.grouped_gemm_share},
        {"attention_forward_share", kernels.attention_forward_share},
        {"attention_backward_share", kernels.attention_backward_share},
        {"attention_portable_share", kernels.attention_portable_share},
        {"attention_flash_1_share", kernels.attention_flash_1_share},
        {"hbm_share", kernels.hbm_share},
        {"elementwise_share", kernels.elementwise_share},
        {"scan_share", kernels.scan_share},
        {"rowwise_share", kernels.rowwise_share},
        {"in_context_slowdown", kernels.in_context_slowdown},
    };
    for (const auto& [key, rate] : rates)
      above_zero(fmt::format("gpu.kernels.{}", key), rate);
    counts_at_most("gpu.kernels.tile_m", kernels.tile_m, largest_tile);
    counts_at_most("gpu.kernels.tile_n", kernels.tile_n, largest_tile);
    counts_at_most("gpu.kernels.attention_tile", kernels.attention_tile, largest_tile);
    if (!(kernels.roofline_norm >= 1))
      error(Code::inconsistent,
            "gpu.kernels.roofline_norm is {} (it is the p of a p-norm); set it to 1 or more",
            kernels.roofline_norm);
    counts_at_most("scale_out.nics_per_node", job_.cluster.scale_out.nics_per_node, most_nics);
    links_carry("scale_up", job_.cluster.scale_up, job_.cluster.scale_up.bandwidth);
    links_carry("scale_out", job_.cluster.scale_out, job_.cluster.scale_out.nic_bandwidth);
  }

  void heat_gets_away() {
    const Gpu& gpu = job_.cluster.gpu;
    if (gpu.power) above_zero("gpu.power.leakage_e_fold", gpu.power->leakage_e_fold / unit::K);
    const Chassis& chassis = job_.cluster.chassis;
    if (chassis.cooling == Cooling::air)
      above_zero("chassis.volume_flow_m3_s", chassis.volume_flow_m3_s);
    else
      above_zero("chassis.coolant_heat_capacity_w_per_k", chassis.coolant_heat_capacity_w_per_k);
  }

  void links_carry(std::string_view name, const auto& links, BytesPerSecond bandwidth) {
    above_zero(fmt::format("{}'s bandwidth", name), bandwidth.in_base_units());
    above_zero(fmt::format("{}.efficiency", name), links.efficiency);
    above_zero(fmt::format("{}.all_to_all_efficiency", name), links.all_to_all_efficiency);
    above_zero(fmt::format("{}.point_to_point_efficiency", name), links.point_to_point_efficiency);
  }

  void clocks_are_steps() {
    const Gpu& gpu = job_.cluster.gpu;
    if (!gpu.max_clock || !gpu.governor) return;
    const GovernorCoefficients& governor = *gpu.governor;
    if (governor.min_clock > *gpu.max_clock)
      error(Code::inconsistent,
            "governor.min_clock {} of {} is above max_clock {} (the governor moves between the "
            "two); exchange them",
            to_text(governor.min_clock), gpu.name, to_text(*gpu.max_clock));
    else if (!(*gpu.max_clock / governor.clock_step <= most_clock_steps))
      error(Code::inconsistent,
            "governor.clock_step {} of {} makes more than {:g} steps to max_clock {} (every step "
            "has its powers and times); make it larger",
            to_text(governor.clock_step), gpu.name, most_clock_steps, to_text(*gpu.max_clock));
  }

  void chassis_has_all_slots(const Chassis& chassis) {
    const Cluster& cluster = job_.cluster;
    const int64_t devices = cluster.gpus_per_node;
    if (static_cast<int64_t>(chassis.slots.size()) != devices)
      error(Code::inconsistent,
            "{} has {} slots for {} GPUs a node (every GPU sits somewhere in the {} stream); list "
            "one slot per GPU",
            cluster.name, chassis.slots.size(), devices,
            chassis.cooling == Cooling::air ? "air" : "coolant");
    for (const Slot& slot : chassis.slots)
      if (!slot.upstream_heating.empty() &&
          static_cast<int64_t>(slot.upstream_heating.size()) != devices)
        return error(Code::inconsistent,
                     "a slot of {} has {} upstream_heating shares (there are {} GPUs a node); "
                     "write one share per GPU or none",
                     cluster.name, slot.upstream_heating.size(), devices);
  }

  void cluster_is_whole() {
    const Cluster& cluster = job_.cluster;
    const int64_t devices = cluster.gpus_per_node;
    if (!predicted_without_power(job_)) chassis_has_all_slots(cluster.chassis);
    if (cluster.liquid_chassis) chassis_has_all_slots(*cluster.liquid_chassis);
    if (devices % cluster.gpu.dies_per_package != 0)
      error(Code::inconsistent,
            "{} dies a node cannot make packages of {} dies (every die has its neighbours); change "
            "gpus_per_node",
            devices, cluster.gpu.dies_per_package);
    device_orders_are_permutations();
    if (!plan_.node_order.empty() && !is_permutation(plan_.node_order, cluster.num_nodes))
      error(Code::inconsistent,
            "node_order {} is no permutation of 0 to {} (every node is used once); name each of "
            "them once",
            fmt::join(plan_.node_order, ","), cluster.num_nodes - 1);
  }

  static bool is_permutation(std::span<const int64_t> order, int64_t count) {
    std::vector<int64_t> sorted(order.begin(), order.end());
    std::ranges::sort(sorted);
    std::vector<int64_t> all(as_size(count));
    std::iota(all.begin(), all.end(), 0);
    return sorted == all;
  }

  /// One order for all nodes, or one for each in turn.
  void device_orders_are_permutations() {
    const auto devices = as_size(job_.cluster.gpus_per_node);
    const std::span<const int64_t> order = plan_.device_order;
    if (order.empty()) return;
    const bool each = order.size() == as_size(job_.world_size());
    bool sound = each || order.size() == devices;
    for (std::size_t first = 0; sound && first < order.size(); first += devices)
      sound = is_permutation(order.subspan(first, devices), job_.cluster.gpus_per_node);
    if (!sound)
      error(Code::inconsistent,
            "device_order {} is no permutation of 0 to {} (every GPU of a node is used once); name "
            "each of them once, for all nodes alike or for each in turn",
            fmt::join(order, ","), job_.cluster.gpus_per_node - 1);
  }

  const Job& job_;
  const Plan& plan_;
};

class FabricExamination : Findings {
 public:
  explicit FabricExamination(const Job& job) : cluster_(job.cluster), fabric_(cluster_.scale_out) {}

  std::vector<Diagnosis> run() {
    numbers_are_possible();
    keys_are_of_this_kind();
    if (fabric_.kind == FabricKind::dragonfly) groups_are_of_whole_leaves();
    return all();
  }

 private:
  void numbers_are_possible() {
    if (!(fabric_.oversubscription > 0))
      error(Code::inconsistent,
            "scale_out.oversubscription is {} (it is bandwidth below over bandwidth above); set it "
            "to 1 or more",
            fabric_.oversubscription);
    if (fabric_.hop_latency < Seconds())
      error(Code::inconsistent,
            "scale_out.hop_latency is negative (a switch takes time); set it to 0 s or more");
    if (fabric_.nodes_per_group < 0)
      error(
          Code::inconsistent,
          "scale_out.nodes_per_group is {} (it counts nodes); set it to 1 or more, or leave it out",
          fabric_.nodes_per_group);
  }

  void keys_are_of_this_kind() {
    if (fabric_.nodes_per_group > 0 && fabric_.kind != FabricKind::dragonfly)
      error(Code::inconsistent,
            "scale_out.nodes_per_group is given for a {} fabric (only a dragonfly has groups); "
            "leave it out or set kind = \"dragonfly\"",
            enum_name(fabric_.kind));
  }

  void groups_are_of_whole_leaves() {
    const int64_t group = fabric_.nodes_per_group, leaf = fabric_.nodes_per_leaf;
    if (group <= 0 || group <= leaf || group % leaf == 0) return;
    error(
        Code::inconsistent,
        "scale_out.nodes_per_leaf {} does not divide nodes_per_group {} (a group is made of whole "
        "leaf switches); try groups of {} or {} nodes",
        leaf, group, group / leaf * leaf, (group / leaf + 1) * leaf);
  }

  const Cluster& cluster_;
  const ScaleOut& fabric_;
};

}  // namespace

std::vector<Diagnosis> diagnose_cluster(const Job& job) {
  return ClusterExamination(job).run();
}

std::vector<Diagnosis> diagnose_fabric(const Job& job) {
  return FabricExamination(job).run();
}

}  // namespace triplepoint::spec
