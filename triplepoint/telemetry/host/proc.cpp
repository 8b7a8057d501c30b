// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <unistd.h>

#include "triplepoint/telemetry/host/file_sensor.h"
#include "triplepoint/telemetry/host/host.h"
#include "triplepoint/telemetry/host/texts.h"

namespace triplepoint::telemetry::host {
namespace {

using run::ReadingKind;
using run::Scope;

/// The kernel writes the whole of /proc/stat at each read, a line per interrupt: a millisecond on
/// large machines. The slow pace is enough, as these are counters.
class ProcSensor final : public Sensor {
 public:
  explicit ProcSensor(const Path& proc)
      : stat_(proc / "stat"),
        memory_(proc / "meminfo"),
        ticks_per_s_(static_cast<double>(sysconf(_SC_CLK_TCK))) {
    has_stat_ = read_ticks().has_value();
    for (const char* const signal : {"cpu_user_s", "cpu_system_s", "cpu_idle_s", "cpu_wait_s"})
      if (has_stat_) add(signal, ReadingKind::counter, "proc stat");
    if (read_memory()) add("memory_used_b", ReadingKind::instant, "proc meminfo");
    if (!has_stat_) miss("CPU time", proc / "stat", stat_);
    if (!read_memory()) miss("memory in use", proc / "meminfo", memory_);
  }

  std::string_view name() const override { return "proc"; }
  const std::vector<run::Device>& devices() const override { return devices_; }
  const std::vector<Channel>& channels() const override { return channels_; }
  const std::vector<Gap>& gaps() const override { return gaps_; }

  void read(bool slow, std::vector<Reading>& readings) override {
    if (!slow) return;
    int32_t channel = 0;
    const int64_t now = monotonic_now_ns();
    if (has_stat_) {
      if (const auto ticks = read_ticks())
        for (const double seconds : since_begin(*ticks))
          readings.push_back({channel++, now, seconds});
      channel = 4;
    }
    const bool has_memory = static_cast<std::size_t>(channel) < channels_.size();
    if (const auto memory = read_memory(); memory && has_memory)
      readings.push_back({channel, now, static_cast<double>(memory->used_b)});
  }

 private:
  void add(const char* signal, ReadingKind kind, const char* sensor) {
    channels_.push_back(node_channel(signal, Scope::host, kind, sensor, Pace::slow));
  }
  void miss(const char* what, const Path& path, const KeptFile& file) {
    gaps_.push_back(
        {what, path.string() + (file.is_open() ? " is not as expected" : ": " + file.why()), ""});
  }
  std::optional<CpuTicks> read_ticks() const {
    std::array<char, 512> buffer{};
    const auto text = stat_.read(buffer);
    return text ? parse_proc_stat(*text) : std::nullopt;
  }
  std::optional<MemoryUse> read_memory() const {
    std::array<char, 2048> buffer{};
    const auto text = memory_.read(buffer);
    return text ? parse_meminfo(*text) : std::nullopt;
  }
  /// The kernel lets iowait and idle step back a little; what we count does not.
  std::array<double, 4> since_begin(const CpuTicks& ticks) {
    const std::array<uint64_t, 4> now = {ticks.user, ticks.system, ticks.idle, ticks.wait};
    if (!begun_) highest_ = begin_ = now, begun_ = true;
    std::array<double, 4> seconds{};
    for (std::size_t i = 0; i < now.size(); ++i) {
      highest_.at(i) = std::max(highest_.at(i), now.at(i));
      seconds.at(i) = static_cast<double>(highest_.at(i) - begin_.at(i)) / ticks_per_s_;
    }
    return seconds;
  }

  KeptFile stat_, memory_;
  double ticks_per_s_;
  bool has_stat_ = false, begun_ = false;
  std::array<uint64_t, 4> begin_{}, highest_{};
  std::vector<run::Device> devices_;
  std::vector<Channel> channels_;
  std::vector<Gap> gaps_;
};

}  // namespace

std::unique_ptr<Sensor> open_proc(const Path& proc) {
  return std::make_unique<ProcSensor>(proc);
}

}  // namespace triplepoint::telemetry::host
