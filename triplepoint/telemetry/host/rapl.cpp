// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "triplepoint/telemetry/host/file_sensor.h"
#include "triplepoint/telemetry/host/host.h"

namespace triplepoint::telemetry::host {
namespace {

constexpr const char* remedy =
    "sudo chmod a+r /sys/class/powercap/*/energy_uj (the kernel keeps it for root; see "
    "docs/measure/sensors.md)";

struct Zone {
  std::string name;  // "package-0", "dram", "core", "psys"
  Path folder;
};

/// "intel-rapl:0", "intel-rapl:0:1". The same packages appear once more as intel-rapl-mmio.
std::vector<Zone> zones_in(const Path& powercap) {
  std::vector<Zone> zones;
  for (const std::string& entry : names_in(powercap))
    if (entry.starts_with("intel-rapl:"))
      zones.push_back({first_line(powercap / entry / "name"), powercap / entry});
  return zones;
}

/// All zones of one kind, as one number: the sum over sockets.
FileNumber sum_of(const std::vector<Zone>& zones, std::string_view beginning, Channel channel) {
  FileNumber number{.channel = std::move(channel), .files = {}, .unit = 1e-6, .moduli = {}};
  for (const Zone& zone : zones) {
    if (!zone.name.starts_with(beginning)) continue;
    number.files.push_back(zone.folder / "energy_uj");
    const auto range = KeptFile(zone.folder / "max_energy_range_uj").count();
    number.moduli.push_back(range ? *range + 1 : 0);
  }
  return number;
}

struct Kind {
  const char *beginning, *signal, *what;
  run::Scope scope;
};

}  // namespace

std::unique_ptr<Sensor> open_rapl(const Path& sysfs) {
  auto sensor = std::make_unique<FileSensor>("rapl");
  const std::vector<Zone> zones = zones_in(sysfs / "class/powercap");
  const auto has = [&](std::string_view beginning) {
    return std::any_of(zones.begin(), zones.end(),
                       [&](const Zone& zone) { return zone.name.starts_with(beginning); });
  };
  std::vector<Kind> kinds = {
      {"package", "cpu_energy_j", "energy of the CPU packages", run::Scope::package},
      {"dram", "dram_energy_j", "energy of the DRAM", run::Scope::dram},
      {"psys", "platform_energy_j", "energy of the platform (packages included)",
       run::Scope::node}};
  // A package's cores are part of it; they stand for it only where it is not told.
  if (!has("package")) kinds[0] = {"core", "cpu_energy_j", "energy of the cores", run::Scope::core};
  for (const Kind& kind : kinds)
    if (has(kind.beginning))
      sensor->add(sum_of(zones, kind.beginning,
                         node_channel(kind.signal, kind.scope, run::ReadingKind::counter,
                                      std::string("rapl ") + kind.beginning, Pace::every_tick)),
                  kind.what, remedy);
  if (zones.empty())
    sensor->add_gap({"energy of the CPU packages",
                     "there is no RAPL in " + (sysfs / "class/powercap").string(),
                     "modprobe intel_rapl_msr; virtual machines have none"});
  return sensor;
}

}  // namespace triplepoint::telemetry::host
