// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/run/run.h"

namespace triplepoint::telemetry {

/// How often to read a channel: every tick, or every tenth (limits, memory in use, fans).
enum class Polling : uint8_t { every_tick, slow };

/// One number that a sensor can read: what it means stands in `about`, as the run keeps it.
struct Channel {
  run::SeriesSource about;
  Polling polling = Polling::every_tick;
};

/// A value and when it was true. Counters count from the first reading of the channel (0), in the
/// unit of the signal's name; wraps of the hardware's counter are already taken out. A sentinel,
/// "not supported", or a reading that failed is no reading: absent is not zero.
struct Reading {
  int32_t channel = 0;  // index into Sensor::channels()
  int64_t time_ns =
      0;  // CLOCK_MONOTONIC; the sensor's own stamp where it has one, else of the call
  double value = 0;
};

/// What cannot be measured here, why, and what would help. `doctor` prints it, a run notes it.
struct Gap {
  std::string what, why,
      remedy;  // "GPU energy counter"; "driver 450 lacks it"; "" if nothing helps
};

/// A process that computes on a GPU, in the numbers of the machine (not of a container).
struct DeviceProcess {
  int32_t device = 0;  // index in Sensor::devices()
  int64_t pid = 0;
};

/// A source of readings on this node: NVML, amdgpu's sysfs, powercap, /proc ... Opened at run time.
/// Never blocks for longer than a call into the driver takes, never throws, allocates nothing in
/// read() once warm. Used by one thread.
class Sensor {
 public:
  Sensor() = default;
  Sensor(const Sensor&) = delete;
  Sensor& operator=(const Sensor&) = delete;
  virtual ~Sensor() = default;

  virtual std::string_view name() const = 0;  // "nvml"
  /// GPUs this sensor sees, `index` counting from 0 inside the sensor. None: it is about the node.
  virtual const std::vector<run::Device>& devices() const = 0;
  /// All it can read; fixed after opening. `about.device` is the index inside the sensor.
  virtual const std::vector<Channel>& channels() const = 0;
  virtual const std::vector<Gap>& gaps() const = 0;
  /// Appends what there is to read now: channels of every tick, and the slow ones if `slow`.
  virtual void read(bool slow, std::vector<Reading>& readings) = 0;
  /// What went wrong since the last call, a sentence each: a GPU fell off the bus, a reset.
  virtual std::vector<std::string> take_troubles() { return {}; }
  /// Who computes on its GPUs now; asked for rarely.
  virtual std::vector<DeviceProcess> processes() { return {}; }
};

/// Now on the clock of readings and marks: CLOCK_MONOTONIC, ns.
int64_t monotonic_now_ns();

/// What single GPUs lack, said once for all that lack the same: "memory power of GPUs 0-7".
class GapList {
 public:
  void add(Gap gap, int32_t gpu);
  void add(const GapList& other);
  std::vector<Gap> gaps() const;

 private:
  struct Entry {
    Gap gap;
    std::vector<int32_t> gpus;
  };
  std::vector<Entry> entries_;
};

/// "0-3, 6" of ascending numbers.
std::string ranges_of(const std::vector<int32_t>& numbers);

/// Where the sensors look. The defaults are a plain machine; tests put their own in place.
struct SensorPaths {
  std::string nvml = "libnvidia-ml.so.1";  // name for dlopen
  Path sysfs = "/sys", proc = "/proc", dev = "/dev";
  std::string ipmitool = "ipmitool";  // found in PATH
  friend bool operator==(const SensorPaths&, const SensorPaths&) = default;
};

/// The defaults, or what the environment puts in their place: TRIPLEPOINT_NVML,
/// TRIPLEPOINT_SYSFS, TRIPLEPOINT_PROC, TRIPLEPOINT_DEV, TRIPLEPOINT_IPMITOOL. In a container these
/// are the host's trees ("/host/sys"); for tests, made ones.
SensorPaths sensor_paths_from_environment();

/// What to open.
struct SensorOptions {
  /// GPUs to read: numbers as `run::Device::local` has them (NVIDIA's first, in the driver's order,
  /// then AMD's by PCI address), ranges ("0-3"), UUIDs ("GPU-4d5b"; the beginning is enough) or PCI
  /// addresses ("0000:1b:00.0"; "1b:00.0"). Empty: all. "none": no GPU.
  std::vector<std::string> devices;
  SensorPaths paths = sensor_paths_from_environment();
  /// NVIDIA's performance counters (Hopper and newer): SM and tensor activity, occupancy, memory
  /// bandwidth. They share the hardware with profilers, so only on request.
  bool gpm = false;
  bool host = true;        // CPU, memory, networks, RAPL, board temperatures
  bool node_power = true;  // what the BMC or a power meter says (IPMI, ACPI, Cray)
  /// A command that prints the node's power in W, for a site's Redfish, PDU or meter; run every
  /// `node_power_period` in its own process. Empty: none.
  std::string node_power_command;
  Seconds node_power_period = 5 * unit::s;
};

enum class LinkKind : uint8_t { nvlink, nvswitch, xgmi };

/// Equal links from one GPU to the same place.
struct LinkFacts {
  LinkKind kind = LinkKind::nvlink;
  std::string remote_pci;  // of the GPU at the other end; empty: a switch, or unknown
  int32_t count = 0;       // links that are up
  std::optional<BytesPerSecond> bandwidth;  // one direction, all `count` together
  friend bool operator==(const LinkFacts&, const LinkFacts&) = default;
};

/// What does not change while a GPU is measured, as its driver says it. Absent: not said.
struct DeviceFacts {
  run::Device device;        // the same as in its sensor's devices(); `local` is unique on the node
  int32_t sensor = 0;        // index into Sensors::all; -1: listed, and not open
  std::string vendor;        // "nvidia", "amd"
  std::string architecture;  // "hopper", "gfx942"; empty: not known
  std::optional<Watts> power_limit, power_limit_default, power_limit_min;
  std::optional<Celsius> slowdown, shutdown;
  std::optional<Bytes> memory;  // as the driver reports it
  std::optional<Hertz> max_sm_clock;
  std::optional<int32_t> pcie_width, pcie_width_max;  // now; of GPU and slot together
  std::vector<LinkFacts> links;
  std::optional<bool> mig, persistence;
};

enum class NicKind : uint8_t { infiniband, roce, ethernet };

struct NicFacts {
  std::string name;  // "mlx5_0", "eth0"
  NicKind kind = NicKind::ethernet;
  std::optional<BytesPerSecond> bandwidth;  // one direction, as negotiated
  bool up = false;
};

struct NodeFacts {
  std::string host, kernel, cpu;  // "node17"; "6.1.0-18-amd64"; "Intel Xeon Platinum 8480+"
  std::string system;             // "Dell Inc. PowerEdge XE9680"
  int32_t sockets = 0, cores = 0, threads = 0;  // 0: not known
  std::optional<Bytes> memory;
  std::string nvidia_driver, cuda, amd_driver;  // empty: none
  std::vector<NicFacts> nics;
};

class SensorOpening;

/// Everything that can be measured on this node, and what cannot.
struct Sensors {
  std::vector<std::unique_ptr<Sensor>> all;
  std::vector<DeviceFacts> devices;  // of all sensors, in the order of `device.local`
  NodeFacts node;
  std::vector<Gap> gaps;  // of what could not be opened at all; each sensor has its own besides
  /// What does not answer yet comes from here (sensor_opening.h); null: all is open.
  std::shared_ptr<SensorOpening> opening;
};

/// Puts what was opened later to what was opened before.
void add_sensors(Sensors& sensors, Sensors later);
void add_facts(NodeFacts& node, NodeFacts later);

}  // namespace triplepoint::telemetry
