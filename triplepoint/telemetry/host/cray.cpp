// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "triplepoint/telemetry/host/file_sensor.h"
#include "triplepoint/telemetry/host/host.h"
#include "triplepoint/telemetry/host/texts.h"
#include "triplepoint/telemetry/unix_time.h"

namespace triplepoint::telemetry::host {
namespace {

using run::ReadingKind;
using run::Scope;

struct Kind {
  const char *file, *signal;
  Scope scope;
  ReadingKind kind;
};

constexpr std::array<Kind, 4> kinds = {
    {{"power", "node_power_w", Scope::node, ReadingKind::instant},
     {"energy", "node_energy_j", Scope::node, ReadingKind::counter},
     {"cpu_energy", "cpu_energy_j", Scope::package, ReadingKind::counter},
     {"memory_energy", "dram_energy_j", Scope::dram, ReadingKind::counter}}};

class CraySensor final : public Sensor {
 public:
  CraySensor(const Path& folder, const std::vector<std::string>& read_already) {
    for (const Kind& kind : kinds) {
      Item item{.file = KeptFile(folder / kind.file),
                .counter = Counter({.unit = 1, .most_per_s = plausible_rate(kind.signal)}),
                .counts = kind.kind == ReadingKind::counter};
      if (std::count(read_already.begin(), read_already.end(), kind.signal) > 0 || !item.read())
        continue;
      Channel channel =
          node_channel(kind.signal, kind.scope, kind.kind,
                       std::string("cray pm_counters ") + kind.file, Pace::every_tick);
      channel.about.period = 100 * unit::ms;
      channels_.push_back(std::move(channel));
      items_.push_back(std::move(item));
    }
  }

  std::string_view name() const override { return "cray"; }
  const std::vector<run::Device>& devices() const override { return devices_; }
  const std::vector<Channel>& channels() const override { return channels_; }
  const std::vector<Gap>& gaps() const override { return gaps_; }

  void read(bool, std::vector<Reading>& readings) override {
    for (std::size_t i = 0; i < items_.size(); ++i) {
      Item& item = items_[i];
      const auto said = item.read();
      const int64_t now = monotonic_now_ns();
      clock_.look(now);
      if (!said || !plausible_range(channels_[i].about.signal).holds(said->value)) continue;
      const int64_t stamp = said->unix_us ? clock_.monotonic(*said->unix_us).value_or(now) : now;
      const double value = item.counts
                               ? item.counter.update(static_cast<uint64_t>(said->value), stamp)
                               : said->value;
      readings.push_back({static_cast<int32_t>(i), stamp, value});
    }
  }

 private:
  struct Item {
    KeptFile file;
    Counter counter;
    bool counts = false;
    std::optional<PmCounter> read() const {
      std::array<char, 128> buffer{};
      const auto text = file.read(buffer);
      const auto said = text ? parse_pm_counter(*text) : std::nullopt;
      return said && said->value < 1e18 ? said : std::nullopt;
    }
  };

  UnixTime clock_;
  std::vector<run::Device> devices_;
  std::vector<Channel> channels_;
  std::vector<Gap> gaps_;
  std::vector<Item> items_;
};

}  // namespace

std::unique_ptr<Sensor> open_cray(const Path& sysfs, const std::vector<std::string>& read_already) {
  auto sensor = std::make_unique<CraySensor>(sysfs / "cray/pm_counters", read_already);
  if (sensor->channels().empty()) return nullptr;
  return sensor;
}

}  // namespace triplepoint::telemetry::host
