// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/spec/gpu.h"

namespace triplepoint::spec {

enum class ScaleUpKind { nvswitch, mesh, pcie };
enum class FabricKind { fat_tree, rail_optimized, dragonfly };
enum class Cooling { air, liquid, immersion };

/// Links inside a node (or an NVLink domain of several nodes). Parameters of
/// perf/collective_time.h.
struct ScaleUp {
  ScaleUpKind kind = ScaleUpKind::nvswitch;  // mesh: each pair of devices has its own links
  BytesPerSecond bandwidth;                  // per device, one direction, datasheet
  double efficiency = 0.75;             // bus bandwidth of a large ring collective over `bandwidth`
  double all_to_all_efficiency = 0.75;  // the same of all-to-all
  double point_to_point_efficiency = 0.8;  // the same of send and receive
  double low_latency_efficiency = 0.2;     // of the protocol that is chosen for small messages
  Seconds launch;                          // fixed cost of one collective
  Seconds latency;                         // per protocol step, small messages
  Seconds bulk_latency;                    // what the bandwidth protocol costs in addition, once
  Bytes half_size;                // message per rank at which half of the bandwidth is reached
  double local_copy_factor = 0;   // speed of copying a rank's own part over `bandwidth`; 0: no copy
  bool nvls = false;              // in-switch reduction
  double nvls_efficiency = 0.58;  // bytes a rank pushes through the switch, over `bandwidth`
  Seconds nvls_latency;           // what filling and draining the reducing switch adds
  int64_t domain_size = 8;        // devices that reach each other over it
  friend bool operator==(const ScaleUp&, const ScaleUp&) = default;
};

/// NICs and the fabric between nodes.
struct ScaleOut {
  FabricKind kind = FabricKind::fat_tree;
  int64_t nics_per_node = 8;               // adapters of the fabric
  BytesPerSecond nic_bandwidth;            // one NIC, one direction
  double efficiency = 0.8;                 // large collectives, over the sum of NICs
  double point_to_point_efficiency = 0.8;  // send and receive, over one NIC
  double all_to_all_efficiency = 0.5;      // many small uncoordinated messages
  Seconds latency;                         // per protocol step, small messages
  Seconds launch;                          // fixed cost of one collective
  Bytes half_size;              // message per rank at which half of the bandwidth is reached
  double oversubscription = 1;  // of the layer above the leaf switches
  int64_t nodes_per_leaf = 32;  // nodes below one leaf switch (or rail group)
  Seconds hop_latency;          // of one switch
  int64_t nodes_per_group = 0;  // dragonfly: nodes whose leaves are wired all to all
  friend bool operator==(const ScaleOut&, const ScaleOut&) = default;
};

/// One place for a device in the chassis.
struct Slot {
  Kelvins inlet_offset;                  // above the node's inlet, at no power of the others
  double resistance_factor = 1;          // of the ladder's last resistance (heat sink to air)
  std::vector<double> upstream_heating;  // rise by each slot's heat, 1: mixed into the whole flow;
                                         // 4: a quarter of it
  friend bool operator==(const Slot&, const Slot&) = default;
};

/// Air (or coolant) path of one node. Parameters of thermal/chassis.h.
struct Chassis {
  Cooling cooling = Cooling::air;            // liquid: cold plates
  Celsius inlet{25};                         // of air or coolant into the node
  double volume_flow_m3_s = 0;               // of air through the device bay, at full fan
  double coolant_heat_capacity_w_per_k = 0;  // m cp of the loop (liquid), per node
  double sink_flow_exponent = 0;             // the sink's resistance goes with flow_share^-exponent
  Watts fixed_heat;                          // NICs, switches, drives that warm the devices' air
  Watts fan_power;                           // at full flow; cubic below
  double fan_floor = 0.3;                    // lowest share of the full flow
  Celsius fan_target{70};                    // controller holds the hottest device here
  double fan_slew_per_s = 0.02;              // share of the full flow that fans change in a second
  Kelvins inlet_spread;                      // standard deviation between nodes
  std::vector<Slot> slots;                   // one per device of the node
  friend bool operator==(const Chassis&, const Chassis&) = default;
};

/// Everything of a node which is not a device.
struct Host {
  Watts cpu_idle, cpu_busy;             // all sockets
  Watts nic_power;                      // each
  Watts switch_power;                   // in-node switches
  double conversion_efficiency = 0.94;  // of the power supplies
  double speed_spread = 0;              // relative standard deviation of host speed between nodes
  friend bool operator==(const Host&, const Host&) = default;
};

struct Cluster {
  std::string name;           // "hgx-h200"
  std::string title;          // as people call it
  Gpu gpu;                    // its GPU, by name or in full
  int64_t num_nodes = 1;      // `nodes` of a job replaces it
  int64_t gpus_per_node = 8;  // devices
  // Number of cores that the devices, as processes, share on one machine; a
  // device's rates are those of its share of a core. 0: each is its own processor.
  int64_t shared_cores = 0;
  ScaleUp scale_up;
  ScaleOut scale_out;
  Chassis chassis;
  std::optional<Chassis> liquid_chassis;  // the same node on cold plates, where that is known
  Host host;
  int64_t num_gpus() const { return num_nodes * gpus_per_node; }
  friend bool operator==(const Cluster&, const Cluster&) = default;
};

/// Uses only the first `devices` slots of every node. Their links and their share of the adapters
/// stay what they are.
void use_devices(Cluster&, int64_t devices);

}  // namespace triplepoint::spec
