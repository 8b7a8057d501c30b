// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <string>

#include "triplepoint/base/unit_text.h"

#include "triplepoint/spec/diagnose_parts.h"
#include "triplepoint/spec/names.h"

namespace triplepoint::spec {
namespace {

using Code = DiagnosisCode;

// Conditions are constant over a window of the simulation; what flaps faster is a mean share.
constexpr Seconds shortest_period = 100 * unit::ms;

// Beyond these it is surely a typing error; the models of heat hold for much less.
constexpr Celsius coldest_room = Celsius(-60), hottest_room = Celsius(100);
constexpr Kelvins largest_rise = 100 * unit::K;
constexpr double smallest_share = 1e-4, largest_share = 1e4;

/// What a kind of fault says, and about what.
struct FaultRules {
  bool of_gpu = false;  // may name a GPU
  bool has_share = false, at_most_one = false;
};
FaultRules rules_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::power:
    case FaultKind::link:
      return {.of_gpu = true, .has_share = true, .at_most_one = true};
    case FaultKind::fan:
      return {.of_gpu = false, .has_share = true, .at_most_one = true};
    case FaultKind::heat_path:
      return {.of_gpu = true, .has_share = true};
    case FaultKind::host:
      return {.of_gpu = false, .has_share = true};
    case FaultKind::inlet:
    case FaultKind::node_lost:
      break;
  }
  return {};
}

class Examination : Findings {
 public:
  explicit Examination(const Job& job) : job_(job) {}

  std::vector<Diagnosis> run() {
    cooling_is_known();
    ambient_is_possible();
    pue_is_possible();
    seed_fits();
    power_limit_is_possible();
    lists_are_possible();
    for (size_t i = 0; i < job_.environment.faults.size(); ++i)
      fault_is_possible(job_.environment.faults[i], i + 1);
    return all();
  }

 private:
  void cooling_is_known() {
    const Cluster& cluster = job_.cluster;
    const Cooling own = cluster.chassis.cooling;
    const Cooling wanted = job_.environment.cooling.value_or(own);
    if (wanted == own || (wanted == Cooling::liquid && cluster.liquid_chassis)) return;
    error(Code::unsupported,
          "{} has no {} chassis (its slots and coolant are not known); leave cooling at {}{}",
          cluster.name, enum_name(wanted), enum_name(own),
          wanted == Cooling::liquid ? " or add [cluster.liquid_chassis]" : "");
  }

  void ambient_is_possible() {
    const auto& ambient = job_.environment.ambient;
    if (ambient && !(*ambient >= coldest_room && *ambient <= hottest_room))
      error(Code::inconsistent,
            "ambient {} is outside of {} to {} (surely a typing error); correct it",
            to_text(*ambient), to_text(coldest_room), to_text(hottest_room));
  }

  void pue_is_possible() {
    const auto& pue = job_.environment.pue;
    if (pue && !(*pue >= 1 && *pue <= 10))
      error(
          Code::inconsistent,
          "pue {} is outside of 1 to 10 (a building draws what its computers draw, and more); try "
          "1.2",
          *pue);
  }

  void seed_fits() {
    constexpr uint64_t largest_seed = std::numeric_limits<int64_t>::max();
    if (job_.environment.seed > largest_seed)
      error(Code::inconsistent,
            "seed {} is above {} (a job file could not hold it); choose a smaller one",
            job_.environment.seed, largest_seed);
  }

  void power_limit_is_possible() {
    const auto& limit = job_.environment.power_limit;
    if (limit && predicted_without_power(job_))
      error(Code::unsupported,
            "power_limit {} on {} (the power of its devices is unknown); leave it out",
            to_text(*limit), job_.cluster.name);
    if (limit) limit_is_settable("power_limit", *limit);
  }

  bool limit_is_settable(const std::string& name, Watts limit) {
    const Gpu& gpu = job_.cluster.gpu;
    if (gpu.tdp && limit > *gpu.tdp) {
      error(Code::inconsistent,
            "{} {} is above the {} that {} is built for (the driver refuses it); set at most that",
            name, to_text(limit), to_text(*gpu.tdp), gpu.name);
      return false;
    }
    if (gpu.min_power_limit && limit < *gpu.min_power_limit) {
      error(Code::inconsistent,
            "{} {} is below the {} that {} can be set to (the driver refuses it); set at least "
            "that",
            name, to_text(limit), to_text(*gpu.min_power_limit), gpu.name);
      return false;
    }
    return true;
  }

  bool has_one_per_device(std::string_view key, size_t entries) {
    const int64_t devices = job_.cluster.num_gpus();
    if (entries == 0) return false;
    if (static_cast<int64_t>(entries) == devices) return true;
    error(Code::inconsistent,
          "{} has {} entries for {} GPUs (each GPU has its own, node by node); write one per GPU "
          "or none",
          key, entries, devices);
    return false;
  }

  /// The first entry that cannot be set tells enough.
  void lists_are_possible() {
    const Environment& room = job_.environment;
    if (has_one_per_device("device_power_limits", room.device_power_limits.size()))
      for (size_t d = 0; d < room.device_power_limits.size(); ++d)
        if (!limit_is_settable(fmt::format("device_power_limits[{}]", d),
                               room.device_power_limits[d]))
          break;
    if (has_one_per_device("device_clock_limits", room.device_clock_limits.size()))
      for (size_t d = 0; d < room.device_clock_limits.size(); ++d)
        if (!clock_is_settable(d, room.device_clock_limits[d])) break;
    if (has_one_per_device("device_resistances", room.device_resistances.size()))
      for (const double factor : room.device_resistances)
        if (!(factor >= 0 && factor <= 100))
          return error(Code::inconsistent,
                       "device_resistances has {:g} (a factor is above 0 and at most 100; 0 stands "
                       "for a drawn board); write such a one",
                       factor);
  }

  bool clock_is_settable(size_t device, Hertz lock) {
    const Gpu& gpu = job_.cluster.gpu;
    if (!gpu.governor || !gpu.max_clock) return true;  // told elsewhere
    if (lock >= gpu.governor->min_clock && lock <= *gpu.max_clock) return true;
    error(Code::inconsistent,
          "device_clock_limits[{}] {} is outside of {} to {} (the driver locks no other clocks of "
          "{}); choose one between them",
          device, to_text(lock), to_text(gpu.governor->min_clock), to_text(*gpu.max_clock),
          gpu.name);
    return false;
  }

  void fault_is_possible(const Fault& fault, size_t number) {
    name_ = fmt::format("fault {} ({})", number, enum_name(fault.kind));
    place_exists(fault);
    size_is_possible(fault);
    time_is_possible(fault);
    if (predicted_without_power(job_) && fault.kind != FaultKind::link &&
        fault.kind != FaultKind::host && fault.kind != FaultKind::node_lost)
      error(Code::unsupported, "{} on {} (power and heat of its devices are unknown); leave it out",
            name_, job_.cluster.name);
  }

  void place_exists(const Fault& fault) {
    const Cluster& cluster = job_.cluster;
    if (fault.gpu && fault.node)
      error(Code::inconsistent,
            "{} names gpu {} and node {} (it is one or the other); keep one of them", name_,
            *fault.gpu, *fault.node);
    if (fault.gpu && !rules_of(fault.kind).of_gpu)
      error(Code::inconsistent,
            "{} names gpu {} (all GPUs of a node share that); name its node, {}", name_, *fault.gpu,
            *fault.gpu / cluster.gpus_per_node);
    if (fault.gpu && (*fault.gpu < 0 || *fault.gpu >= cluster.num_gpus()))
      error(Code::inconsistent, "{} names gpu {} ({} has GPUs 0 to {}); choose one of them", name_,
            *fault.gpu, cluster.name, cluster.num_gpus() - 1);
    if (fault.node && (*fault.node < 0 || *fault.node >= cluster.num_nodes))
      error(Code::inconsistent, "{} names node {} ({} has nodes 0 to {}); choose one of them",
            name_, *fault.node, cluster.name, cluster.num_nodes - 1);
  }

  void size_is_possible(const Fault& fault) {
    const FaultRules rules = rules_of(fault.kind);
    if (rules.has_share && !(fault.share > 0 && std::isfinite(fault.share)))
      error(Code::inconsistent,
            "{} leaves a share of {} (with nothing left the job would never end); use one above 0",
            name_, fault.share);
    else if (rules.has_share && (fault.share < smallest_share || fault.share > largest_share))
      error(Code::inconsistent,
            "{} leaves a share of {} (beyond {} to {} it is surely a typing error); correct it",
            name_, fault.share, smallest_share, largest_share);
    else if (rules.at_most_one && fault.share > 1)
      error(Code::inconsistent,
            "{} leaves a share of {} (a fault cannot add any); use one from 0 to 1", name_,
            fault.share);
    else if (!rules.has_share && fault.share != 1)
      error(Code::inconsistent, "{} has a share (it is not measured in one); leave share out",
            name_);
    const bool warms = fault.kind == FaultKind::inlet;
    if (warms != (fault.rise != Kelvins()))
      error(Code::inconsistent, "{} {} (only an inlet rises); {}", name_,
            warms ? "has no rise" : "has a rise",
            warms ? "say by how much, as in rise = \"10 K\"" : "leave rise out");
    else if (!(fault.rise >= -largest_rise && fault.rise <= largest_rise))
      error(Code::inconsistent,
            "{} rises by {} (beyond {} it is surely a typing error); correct it", name_,
            to_text(fault.rise), to_text(largest_rise));
  }

  void time_is_possible(const Fault& fault) {
    const bool lost = fault.kind == FaultKind::node_lost;
    if (fault.begin < Seconds())
      error(Code::inconsistent, "{} begins before the job does ({}); let it begin at 0 s or later",
            name_, to_text(fault.begin));
    if (fault.end && *fault.end <= fault.begin)
      error(Code::inconsistent,
            "{} ends at {}, where it begins or before (it would do nothing); end it later", name_,
            to_text(*fault.end));
    if (fault.period && *fault.period < shortest_period)
      error(Code::unsupported,
            "{} has a period of {} (nothing here is followed below {}); use a longer one, or the "
            "mean share",
            name_, to_text(*fault.period), to_text(shortest_period));
    if (lost && fault.end)
      error(Code::inconsistent, "{} has an end (its restart time sets the duration); leave end out",
            name_);
    if (lost != (fault.restart > Seconds()))
      error(Code::inconsistent, "{} {} (a lost node is what is restarted from); {}", name_,
            lost ? "has no restart time" : "has a restart time",
            lost ? "give a time, as in restart = \"5 min\"" : "leave restart out");
  }

  const Job& job_;
  std::string name_;  // of the fault looked at
};

}  // namespace

bool predicted_without_power(const Job& job) {
  const Gpu& gpu = job.cluster.gpu;
  return job.cluster.shared_cores > 0 && !gpu.power && !gpu.thermal && !gpu.governor;
}

std::vector<Diagnosis> diagnose_environment(const Job& job) {
  return Examination(job).run();
}

}  // namespace triplepoint::spec
