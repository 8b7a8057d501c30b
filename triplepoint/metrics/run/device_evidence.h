// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "triplepoint/run/run.h"

namespace triplepoint::metrics {

/// The cause that the evidence leaves, beginning with the driver's own reasons; unknown where
/// several remain.
///
///   power_brake, heat   the reason holds for 5 % of the time more than on the peers; the bit of
///                       any hardware slowdown says neither: it is heat where the die is hotter
///   clock_lock          on where the peers have none
///   power_limit         5 % lower than the peers'
///   then, at the power cap for 5 % of the time:
///   power_cap           its limit, or the peers', is not known
///   power_delivery      limits are equal, and it draws less than 90 % of it and of the peers'
///   power board               limits are equal, it draws as much, and is not 8 K hotter, so
///   leakage is
///                       no explanation
run::Cause cause_of(const std::vector<run::Evidence>&);

/// The number of this kind; null if there is none.
const run::Evidence* find(const std::vector<run::Evidence>&, run::Evidence::Kind);
/// Whether its clock is lower than its peers' by more than readings differ.
bool has_lower_clock(const std::vector<run::Evidence>&);
/// Whether its die is clearly hotter than its peers': by more than boards in equal slots differ.
bool is_hotter(const std::vector<run::Evidence>&);

/// Power limit of a device: as recorded over the window; of a simulated run its own, with the
/// faults that are on at the end.
std::optional<double> power_limit_w(const run::Run&, size_t device,
                                    std::optional<run::Extent> window = {});

/// Share of time for which the device's clock is locked; nothing where it is not known.
std::optional<double> locked_share(const run::Run&, size_t device,
                                   std::optional<run::Extent> window);

/// Names of the evidence of a reason: what the driver calls it.
inline constexpr std::string_view any_hardware_slowdown = "hardware_slowdown";
inline constexpr std::string_view hardware_heat = "hardware_thermal";

/// What the run's sensors and settings tell of devices: medians of `slow` and of `peers` (places in
/// the run's devices) over the window.
class DeviceEvidence {
 public:
  DeviceEvidence(const run::Run&, std::vector<run::DeviceSummary> known,
                 std::optional<run::Extent> window);
  std::vector<run::Evidence> of(const std::vector<size_t>& slow,
                                const std::vector<size_t>& peers) const;

 private:
  struct State {
    run::DeviceSummary mean;
    std::optional<double> power_limit_w, locked;  // share of time
  };
  std::vector<State> states_;
};

}  // namespace triplepoint::metrics
