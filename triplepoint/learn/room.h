// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/spec/job.h"

namespace triplepoint::learn {

/// What is believed of a room before a temperature was read in it; standard deviations.
struct RoomPriors {
  double inlet_k = 0;  // of the coolant into the nodes
  double slot_k = 0;   // of one slot's coolant against the others'
  double board = 0;    // of a board's resistance, relative
  double noise_k = 0;  // of a temperature that was simulated at a measured power
  double power = 0;    // of the mean power of a run whose power was not measured, relative
  friend bool operator==(const RoomPriors&, const RoomPriors&) = default;
};

/// One GPU, mean under load.
struct GpuHeat {
  int64_t node = 0, local = 0;  // local: index of the device in its node
  double temperature_c = 0;
  std::optional<double> power_w;
};

/// K/W between a die and its coolant by the GPU's ladder: what temperatures are put to equal load
/// with. Nothing for a GPU without a ladder.
std::optional<double> kelvin_per_watt(const spec::Gpu&);

/// A job whose GPUs' temperatures were read. Devices of one node alone stand for every node.
struct HeatRun {
  spec::Job job;
  std::vector<GpuHeat> devices;
};

/// How the nodes of a place differ in heat from what is shipped.
struct Room {
  std::string cluster;               // whose nodes they are
  double inlet_k = 0;                // on top of the inlet, unless a job states one
  std::vector<double> slots_k;       // on top of each slot's inlet offset, 0 on average
  std::vector<double> boards;        // resistance of each board over its slot's, node by node
  int64_t devices = 0;               // that were read
  double before_k = 0, after_k = 0;  // rms of simulated less measured temperatures
  friend bool operator==(const Room&, const Room&) = default;
};

/// Whether the job's nodes are of the kind that was read.
bool is_of(const Room&, const spec::Job&);
/// The job in that room, if it is of it. Boards beyond those that were read are drawn as ever.
spec::Job in_room(spec::Job, const Room&);

/// T - T_simulated at the measured power, mean over runs, is what inlet, slot and board add:
///
///   d_ns = inlet + slot_s + board_ns,   slot_s: median over the nodes (the cooler of two),
///   board_ns: what is left
///
/// Each part is believed by its prior: s^2 / (s^2 + noise^2 / n) of it. Where no power was
/// measured, the noise of the inlet has the error of the simulated power. A board far out of its
/// prior is believed in full (Student's t with 4 degrees of freedom). Four rounds of simulating and
/// correcting, as a warmer board leaks more. Nothing where no temperature can be simulated.
/// Source of shrinkage: Efron and Morris, J. Am. Stat. Assoc. 70, 1975.
std::optional<Room> learn_room(const RoomPriors&, const std::vector<HeatRun>&);

}  // namespace triplepoint::learn
