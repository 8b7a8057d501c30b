// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "triplepoint/telemetry/driver_values.h"
#include "triplepoint/telemetry/open_file.h"
#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry::host {

/// Several files become one number: the sum of packages, the hottest of sockets.
enum class Combine : uint8_t { sum, highest };

/// A number that the kernel shows in files: which, and what one count of it is.
struct FileNumber {
  Channel channel;
  std::vector<Path> files;
  double unit = 1;
  Combine combine = Combine::sum;
  /// Of counters: where each file's counter wraps; empty: it does not.
  std::vector<uint64_t> moduli = {};
  bool has_stamp = false;  // of one file, as parse_pm_counter() reads it
};

/// Numbers of the node that stand in small files, one each: powercap, hwmon, networks.
class FileSensor final : public Sensor {
 public:
  explicit FileSensor(std::string name) : name_(std::move(name)) {}

  /// Adds a number if all of its files can be opened and hold one; else a gap with this remedy.
  void add(FileNumber number, const std::string& what, const std::string& remedy);
  void add_gap(Gap gap) { gaps_.push_back(std::move(gap)); }

  std::string_view name() const override { return name_; }
  const std::vector<run::Device>& devices() const override { return devices_; }
  const std::vector<Channel>& channels() const override { return channels_; }
  const std::vector<Gap>& gaps() const override { return gaps_; }
  void read(bool slow, std::vector<Reading>& readings) override;
  std::vector<std::string> take_troubles() override { return std::exchange(troubles_, {}); }

 private:
  struct Part {
    OpenFile file;
    Counter counter;
  };
  struct Item {
    std::vector<Part> parts;
    bool counts = false;
    double unit = 1;
    Combine combine = Combine::sum;
    bool has_stamp = false;
    Range range;
    int failures = 0;
  };
  std::optional<double> part_value(const Item& item, Part& part, int64_t& stamp) const;
  std::optional<double> value_of(Item& item, int64_t& stamp) const;
  void count_failure(Item& item, const Channel& channel);

  std::string name_;
  std::vector<run::Device> devices_;  // none: the node's
  std::vector<Channel> channels_;
  std::vector<Gap> gaps_;
  std::vector<Item> items_;
  std::vector<std::string> troubles_;
  UnixTime clock_;
};

/// A channel of the node.
Channel node_channel(std::string signal, run::Scope scope, run::ReadingKind kind,
                     std::string sensor, Polling polling);

/// CPU time since boot, all cores, in ticks of the kernel (USER_HZ).
struct CpuTicks {
  uint64_t user = 0, system = 0, idle = 0, wait = 0;
  friend bool operator==(const CpuTicks&, const CpuTicks&) = default;
};

/// The first line of /proc/stat. `user` holds niced time, `system` that of interrupts; time stolen
/// by a hypervisor belongs to no process. Source: proc(5).
std::optional<CpuTicks> parse_proc_stat(std::string_view text);

/// Bytes in use, as /proc/meminfo has them: MemTotal - MemAvailable.
struct MemoryUse {
  uint64_t total_b = 0, used_b = 0;
  friend bool operator==(const MemoryUse&, const MemoryUse&) = default;
};
std::optional<MemoryUse> parse_meminfo(std::string_view text);

/// "Instantaneous power reading: 220 Watts", as `ipmitool dcmi power reading` prints it; nothing if
/// the BMC says that power measurement is not active, or the line is missing.
std::optional<double> parse_dcmi_power(std::string_view text);

/// One file of Cray's pm_counters: "325 W 1700000000123456 us".
struct PmCounter {
  double value = 0;
  std::optional<int64_t> unix_us;
};
std::optional<PmCounter> parse_pm_counter(std::string_view text);

/// What /proc/cpuinfo says of the machine.
struct CpuInfo {
  std::string model;
  int32_t sockets = 0, cores = 0, threads = 0;
};
CpuInfo parse_cpuinfo(std::string_view text);

}  // namespace triplepoint::telemetry::host
