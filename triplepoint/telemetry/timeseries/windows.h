// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"

namespace triplepoint::telemetry {

/// Stretches of time with their energies, as ZeusMonitor and codecarbon write them.
class Windows {
 public:
  explicit Windows(int32_t gpus_per_node) : per_node_(gpus_per_node) {}

  /// start_time,window_name,elapsed_time,gpu0_energy,... in joules; commas in names are the name's.
  Result<void> read_zeus(std::string_view text, std::string_view name);
  /// emissions.csv: a row is a run, or a later state of the one before it; energies in kWh.
  Result<void> read_emissions(std::string_view text, std::string_view name);

  /// Steps are the windows called a step or an iteration, else those that lie in no other, where
  /// there are several; the others, and what lies between, notes tell. Energies of devices are
  /// means over the steps; those of CPU and memory stay apart.
  /// `epoch`: of the run's series, where it has some.
  void add_to(run::Run&, const std::optional<int64_t>& epoch) const;

 private:
  struct Window {
    int64_t begin_ns = 0, end_ns = 0;
    std::string name;
    std::map<int32_t, double> joules;     // of GPUs, as measured
    std::optional<double> cpu_j, dram_j;  // stay apart
  };
  std::vector<const Window*> steps_of() const;
  void add_devices(run::Run&, const std::vector<const Window*>& steps) const;
  void add_others(run::Run&, const std::vector<const Window*>& steps) const;

  int32_t per_node_;
  std::vector<Window> windows_;
  std::vector<std::string> notes_;
  bool is_relative_ = false;
  // codecarbon: of all runs.
  std::optional<double> seconds_, gpu_j_, cpu_j_, dram_j_;
};

}  // namespace triplepoint::telemetry
