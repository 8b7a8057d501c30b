// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/units.h"

#include "triplepoint/run/run.h"

namespace triplepoint::metrics {

struct PowerProfileOptions {
  int64_t nodes_per_rack = 4;
  double allowed_swing = 0.1;  // of the site's peak, that smoothing aims at
  Seconds ramp_window = 0.1 * unit::s;
};

/// Power of one level of the building over a step (a recording: over all its steps).
///
///   swing = highest - lowest;  ramp = largest |P(t + w) - P(t)| / w, w: the ramp window
///   coincidence = peak of the sum / sum of the single peaks
struct PowerLevel {
  std::string name;              // "node", "rack", "all nodes"
  int64_t units = 1, worst = 0;  // how many; the one that swings most, which the numbers are of
  Watts mean, lowest, highest;
  double ramp_up_w_per_s = 0, ramp_down_w_per_s = 0;
  double coincidence = 1;
  Watts swing() const { return highest - lowest; }
};

/// What it takes to hold the site's swing at the allowed one.
///
/// storage: a battery or capacitor that makes it flat: the range of the integral of P - mean, and
/// the power it gives or takes. floor: devices burn what is missing to (peak - allowed swing);
/// joules of one step. stagger: nodes begin one after the other over so long; the sum of the
/// shifted curves swings by `staggered_swing`, and as replicas meet at the end of a step it lasts
/// up to that much longer; zero where nodes work on one replica together.
struct Smoothing {
  Watts allowed_swing;
  Joules storage;
  Watts storage_power;
  Watts floor;
  Joules floor_energy;     // a step
  double floor_share = 0;  // of the energy of a step
  Seconds stagger;         // of a step; the least that suffices, else the best
  Watts staggered_swing;
  bool stagger_suffices = false;
};

/// Who draws how much when: training steps make all GPUs of a job rise and fall together, which
/// power supplies, racks and the grid feel.
struct PowerProfile {
  Seconds step, bin;
  bool of_devices_only = false;    // no node was metered: GPUs over the supplies' efficiency
  std::vector<PowerLevel> levels;  // node, rack, all nodes
  Smoothing smoothing;
  std::vector<double> site_w;  // [bin]
};

/// From the series of any run: node_power_w where nodes are metered (simulated ones are), else the
/// sum of their GPUs' power_w, over the conversion efficiency of the job's host. All values are
/// held until the next one, on a grid of the finest period. Nothing where a device has no series
/// (simulated clusters above 2,048 devices keep none), or fewer than three values.
std::optional<PowerProfile> power_profile(const run::Run&, const PowerProfileOptions& = {});

Json power_profile_json(const PowerProfile&);

/// Storage that makes a periodic curve flat, and the least power it must give and take.
Joules flattening_storage(const std::vector<double>& watts, Seconds bin);

}  // namespace triplepoint::metrics
