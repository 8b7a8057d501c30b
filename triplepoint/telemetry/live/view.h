// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "triplepoint/telemetry/live/snapshot.h"

namespace triplepoint::telemetry {

/// One GPU as people look at it: one number a question, absent where no sensor answers it.
struct GpuView {
  int32_t index = 0;  // run::Device::local
  std::string name;
  bool answers = true;
  std::optional<double> power_w;  // instant; else what the sensor averages
  bool power_is_average = false;
  std::optional<int32_t> power_counted_on;  // the package's power stands there
  std::string power_scope;                  // "" for the GPU's own; "module", "package"
  std::optional<double> power_limit_w;
  std::optional<double> temperature_c;  // NVIDIA's GPU sensor, AMD's junction
  std::optional<double> memory_c;
  std::optional<double> slowdown_c;
  std::optional<double> sm_clock_mhz;
  std::optional<double> utilization;  // a share
  std::optional<double> memory_used_b, memory_b;
  std::optional<double> scale_up_tx_bps, scale_up_rx_bps, pcie_tx_bps, pcie_rx_bps;  // bytes/s
  std::optional<uint64_t> reasons;                                                   // bits, now
  run::NamedValues throttle;  // share of the last second or two, by reason
  /// What slows this GPU: "power 12%", or the bits where no residency is counted; "" for nothing.
  std::string cause() const;
  /// The largest share of `throttle`.
  double throttle_share() const;
};

struct NodeView {
  std::string host;
  std::optional<double> power_w;  // of the node, where something measures it
  std::optional<double> cpu_power_w, dram_power_w, gpu_power_w;  // the last: sum over packages
  std::optional<double> cpu_busy;                                // share of all hardware threads
  std::optional<double> cpu_c, inlet_c;
  std::optional<double> memory_used_b, memory_b;
  std::optional<double> scale_out_tx_bps, scale_out_rx_bps, ethernet_tx_bps, ethernet_rx_bps;
};

GpuView view_gpu(const Snapshot&, int32_t device);
NodeView view_node(const Snapshot&);

}  // namespace triplepoint::telemetry
