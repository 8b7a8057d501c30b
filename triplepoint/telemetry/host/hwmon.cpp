// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cctype>

#include "triplepoint/base/text.h"

#include "triplepoint/telemetry/host/file_sensor.h"
#include "triplepoint/telemetry/host/host.h"

namespace triplepoint::telemetry::host {
namespace {

using run::ReadingKind;
using run::Scope;

bool is_cpu(const std::string& chip) {
  constexpr std::array<std::string_view, 4> chips = {"coretemp", "k10temp", "zenpower",
                                                     "cpu_thermal"};
  return std::find(chips.begin(), chips.end(), chip) != chips.end();
}

/// Whether a label names a whole CPU rather than one of its cores or dies.
bool is_whole_cpu(const std::string& label) {
  return label.starts_with("Package") || label == "Tctl" || label == "Tdie";
}

/// Numbers of a channel in a chip's folder: 1 for "temp1_input".
std::vector<std::string> inputs_of(const Path& chip, std::string_view kind,
                                   std::string_view ending) {
  std::vector<std::string> found;
  for (const std::string& name : names_in(chip))
    if (name.starts_with(kind) && name.ends_with(ending))
      found.push_back(name.substr(0, name.size() - ending.size()));
  return found;
}

/// What is asked of all chips, sorted by what it means.
struct Found {
  std::vector<Path> cpu, any_cpu, inlet, grace, module;
  std::optional<Seconds> window;  // of the power meters
};

void look_at_temperatures(const Path& chip, bool cpu, Found& found) {
  for (const std::string& input : inputs_of(chip, "temp", "_input")) {
    const std::string label = first_line(chip / (input + "_label"));
    const Path file = chip / (input + "_input");
    if (cpu && is_whole_cpu(label)) found.cpu.push_back(file);
    if (cpu) found.any_cpu.push_back(file);
    const std::string words = lower_case(label);
    if (words.find("inlet") != std::string::npos || words.find("ambient") != std::string::npos)
      found.inlet.push_back(file);
  }
}

/// Grace's meters are told apart by their OEM text; those of a plain node have none.
void look_at_meters(const Path& chip, Found& found) {
  for (const std::string& input : inputs_of(chip, "power", "_average")) {
    const std::string label = first_line(chip / (input + "_oem_info"));
    const Path file = chip / (input + "_average");
    if (label.starts_with("Grace")) found.grace.push_back(file);
    if (label.starts_with("Module")) found.module.push_back(file);
    if (const auto ms = KeptFile(chip / (input + "_average_interval")).number())
      found.window = *ms * unit::ms;
  }
}

Found look(const Path& hwmon) {
  Found found;
  for (const std::string& entry : names_in(hwmon)) {
    const Path chip = hwmon / entry;
    const std::string name = first_line(chip / "name");
    if (name == "amdgpu") continue;  // a GPU; its own sensor reads it
    look_at_temperatures(chip, is_cpu(name), found);
    if (name == "power_meter") look_at_meters(chip, found);
  }
  if (found.cpu.empty()) found.cpu = found.any_cpu;
  return found;
}

}  // namespace

std::unique_ptr<Sensor> open_hwmon(const Path& sysfs) {
  auto sensor = std::make_unique<FileSensor>("hwmon");
  const Found found = look(sysfs / "class/hwmon");
  const auto add = [&](const char* signal, Scope scope, ReadingKind kind, double unit,
                       const std::vector<Path>& files) {
    FileNumber number{.channel = node_channel(signal, scope, kind, "hwmon", Pace::slow),
                      .files = files,
                      .unit = unit,
                      .combine = kind == ReadingKind::instant ? Combine::highest : Combine::sum,
                      .moduli = {}};
    if (kind == ReadingKind::average) number.channel.about.window = found.window;
    if (!files.empty()) sensor->add(std::move(number), signal, "");
  };
  add("cpu_c", Scope::package, ReadingKind::instant, 1e-3, found.cpu);
  add("inlet_c", Scope::node, ReadingKind::instant, 1e-3, found.inlet);
  add("cpu_power_w", Scope::package, ReadingKind::average, 1e-6, found.grace);
  add("module_power_w", Scope::module, ReadingKind::average, 1e-6, found.module);
  if (found.cpu.empty())
    sensor->add_gap({"temperature of the CPUs",
                     "no coretemp or k10temp in " + (sysfs / "class/hwmon").string(),
                     "modprobe coretemp (Intel) or k10temp (AMD); virtual machines have none"});
  return sensor;
}

}  // namespace triplepoint::telemetry::host
