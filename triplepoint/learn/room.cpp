// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/learn/room.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "triplepoint/base/statistics.h"

#include "triplepoint/sim/simulate.h"

namespace triplepoint::learn {
namespace {

constexpr int rounds = 4;
constexpr double tails = 4;  // degrees of freedom of Student's t: of boards
constexpr double least_factor = 0.1, most_factor = 10;

spec::Chassis& chassis_in_use(spec::Job& job) {
  const bool own =
      job.environment.cooling.value_or(job.cluster.chassis.cooling) == job.cluster.chassis.cooling;
  return own || !job.cluster.liquid_chassis ? job.cluster.chassis : *job.cluster.liquid_chassis;
}

bool has_slots(const spec::Job& job) {
  return job.cluster.gpu.thermal &&
         static_cast<int64_t>(job.chassis().slots.size()) == job.cluster.gpus_per_node;
}

/// What one device lacks to be as hot as it was read, and how far it is above its coolant.
struct Gap {
  double missing_k = 0, rise_k = 0;
};

/// Gaps of each device of the job, node by node; those that were not read have none.
std::vector<std::optional<Gap>> gaps_of(const HeatRun& seen, const Room& room) {
  const spec::Job job = in_room(seen.job, room);
  const run::Run run = sim::simulate(job, {.timeline = false, .causes = false});
  const spec::Chassis chassis = job.chassis();
  const bool one_node =
      std::ranges::all_of(seen.devices, [](const GpuHeat& d) { return d.node == 0; });
  std::vector<std::optional<Gap>> gaps(run.summaries.size());
  const auto per_node = as_size(job.cluster.gpus_per_node);
  const double slope = *kelvin_per_watt(job.cluster.gpu);
  for (std::size_t d = 0; d < gaps.size(); ++d) {
    const run::DeviceSummary& simulated = run.summaries[d];
    const auto read = std::ranges::find_if(seen.devices, [&](const GpuHeat& one) {
      return as_size(one.local) == d % per_node && (one_node || as_size(one.node) == d / per_node);
    });
    if (read == seen.devices.end() || !simulated.die_mean_c) continue;
    const double air = (chassis.inlet + chassis.slots[d % per_node].inlet_offset).degrees();
    double missing = read->temperature_c - *simulated.die_mean_c;
    if (read->power_w && simulated.power_mean_w)
      missing += slope * (*simulated.power_mean_w - *read->power_w);
    gaps[d] = Gap{missing, std::max(1.0, *simulated.die_mean_c - air)};
  }
  return gaps;
}

/// What the runs say of each device: what it has over the shipped room, in K.
struct Seen {
  std::vector<double> above_k, rise_k;
  std::vector<int64_t> runs;  // that read it
  double rms_k = 0;
};

Seen look(const std::vector<HeatRun>& runs, const Room& room, std::size_t slots) {
  Seen seen;
  double squares = 0, count = 0;
  for (const HeatRun& run : runs) {
    const auto gaps = gaps_of(run, room);
    const std::size_t size = std::max(seen.runs.size(), gaps.size());
    seen.above_k.resize(size), seen.rise_k.resize(size), seen.runs.resize(size);
    for (std::size_t d = 0; d < gaps.size(); ++d) {
      if (!gaps[d]) continue;
      const double board = d < room.boards.size() ? room.boards[d] - 1 : 0;
      const double slot = room.slots_k.empty() ? 0 : room.slots_k[d % slots];
      const bool told = run.job.environment.ambient.has_value();
      seen.above_k[d] += gaps[d]->missing_k + (told ? 0 : room.inlet_k) + slot +
                         board * gaps[d]->rise_k / (1 + board);
      seen.rise_k[d] += gaps[d]->rise_k / (1 + board);
      ++seen.runs[d];
      squares += gaps[d]->missing_k * gaps[d]->missing_k, ++count;
    }
  }
  for (std::size_t d = 0; d < seen.runs.size(); ++d)
    if (seen.runs[d] > 0)
      for (double* sum : {&seen.above_k[d], &seen.rise_k[d]})
        *sum /= as_real(seen.runs[d]);
  seen.rms_k = count > 0 ? std::sqrt(squares / count) : 0;
  return seen;
}

double believed(double spread, double noise) {
  return spread * spread / (spread * spread + noise * noise);
}

/// Medians over the nodes, the cooler of two (a bad board is a hot one); of slots that were not
/// read, that of the others.
std::vector<double> slot_medians(const Seen& seen, std::size_t slots) {
  std::vector<std::vector<double>> values(slots);
  std::vector<double> all;
  for (std::size_t d = 0; d < seen.runs.size(); ++d)
    if (seen.runs[d] > 0)
      values[d % slots].push_back(seen.above_k[d]), all.push_back(seen.above_k[d]);
  return mapped(values, [&](std::vector<double>& of_slot) {
    return of_slot.empty()       ? median(all)
           : of_slot.size() == 2 ? std::min(of_slot[0], of_slot[1])
                                 : median(of_slot);
  });
}

Room room_of(const RoomPriors& priors, const Seen& seen, Room room, bool powers_known,
             std::size_t runs) {
  const std::size_t slots = room.slots_k.size();
  const std::vector<double> medians = slot_medians(seen, slots);
  const double mean = std::reduce(medians.begin(), medians.end()) / as_real(slots);
  const double rise = median(seen.rise_k);
  const double nodes = as_real(seen.runs.size()) / as_real(slots);
  const double run_noise =
      std::hypot(priors.noise_k, powers_known ? 0 : priors.power * rise) / std::sqrt(runs);
  room.inlet_k = believed(priors.inlet_k, run_noise) * mean;
  for (std::size_t s = 0; s < slots; ++s)
    room.slots_k[s] =
        believed(priors.slot_k, priors.noise_k / std::sqrt(nodes)) * (medians[s] - mean);
  room.boards.clear(), room.devices = 0;
  for (std::size_t d = 0; d < seen.runs.size(); ++d) {
    double factor = 1;
    if (seen.runs[d] > 0) {
      ++room.devices;
      const double k = seen.above_k[d] - medians[d % slots], prior = priors.board * seen.rise_k[d];
      const double spread = prior * std::sqrt((tails + std::pow(k / prior, 2)) / (tails + 1));
      const double noise = priors.noise_k / std::sqrt(as_real(seen.runs[d]));
      factor += believed(spread, noise) * k / seen.rise_k[d];
    }
    room.boards.push_back(std::clamp(factor, least_factor, most_factor));
  }
  return room;
}

}  // namespace

std::optional<double> kelvin_per_watt(const spec::Gpu& gpu) {
  if (!gpu.thermal) return std::nullopt;
  return sum_of(gpu.thermal->resistances,
                [](const KelvinsPerWatt resistance) { return resistance / (unit::K / unit::W); });
}

bool is_of(const Room& room, const spec::Job& job) {
  return has_slots(job) && job.cluster.name == room.cluster &&
         job.chassis().slots.size() == room.slots_k.size();
}

spec::Job in_room(spec::Job job, const Room& room) {
  if (!is_of(room, job)) return job;
  spec::Chassis& chassis = chassis_in_use(job);
  chassis.inlet = chassis.inlet + room.inlet_k * unit::K;
  for (std::size_t slot = 0; slot < room.slots_k.size(); ++slot)
    chassis.slots[slot].inlet_offset += room.slots_k[slot] * unit::K;
  std::vector<double>& boards = job.environment.device_resistances;
  boards.resize(as_size(job.cluster.num_gpus()), 0);
  std::copy_n(room.boards.begin(), std::min(boards.size(), room.boards.size()), boards.begin());
  return job;
}

std::optional<Room> learn_room(const RoomPriors& priors, const std::vector<HeatRun>& all) {
  const std::vector<HeatRun> runs = filtered(all, [&](const HeatRun& run) {
    return has_slots(run.job) && !run.devices.empty() &&
           run.job.cluster.name == all.front().job.cluster.name;
  });
  if (runs.empty()) return std::nullopt;
  const auto slots = as_size(runs.front().job.cluster.gpus_per_node);
  const bool powers_known = std::ranges::all_of(runs, [](const HeatRun& run) {
    return std::ranges::all_of(run.devices, [](const GpuHeat& d) { return d.power_w.has_value(); });
  });
  Room room{.cluster = runs.front().job.cluster.name, .slots_k = std::vector<double>(slots)};
  Seen seen = look(runs, room, slots);
  if (std::ranges::all_of(seen.runs, [](int64_t count) { return count == 0; })) return std::nullopt;
  const double before = seen.rms_k;
  for (int round = 0; round < rounds; ++round) {
    room = room_of(priors, seen, std::move(room), powers_known, runs.size());
    seen = look(runs, room, slots);
  }
  room.before_k = before, room.after_k = seen.rms_k;
  return room;
}

}  // namespace triplepoint::learn
