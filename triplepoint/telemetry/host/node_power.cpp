// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include "triplepoint/telemetry/host/command.h"
#include "triplepoint/telemetry/host/file_sensor.h"
#include "triplepoint/telemetry/host/host.h"
#include "triplepoint/telemetry/host/texts.h"

namespace triplepoint::telemetry::host {
namespace {

constexpr const char* what = "power of the whole node";

Channel power_channel(std::string sensor, run::ReadingKind kind) {
  return node_channel("node_power_w", run::Scope::node, kind, std::move(sensor), Pace::slow);
}

std::optional<double> plain_watts(std::string_view text) {
  const auto watts = leading_number(text);
  return watts && *watts > 0 && plausible_range("node_power_w").holds(*watts) ? watts
                                                                              : std::nullopt;
}

/// Asks once, to see whether it works; then a thread goes on asking.
std::unique_ptr<Sensor> open_command(std::string name, CommandNumber number, std::vector<Gap>& gaps,
                                     const std::string& remedy) {
  number.channel.about.period = number.period;
  const auto text = output_of(number.command, number.limit);
  const auto first = text ? number.parse(*text) : std::nullopt;
  if (first) return std::make_unique<CommandSensor>(std::move(name), std::move(number), *first);
  gaps.push_back(
      {what, text ? number.command.front() + " prints no power" : text.error().what, remedy});
  return nullptr;
}

/// An ACPI power meter without a label is the node's; Grace labels its own, which hwmon reads.
std::unique_ptr<Sensor> open_meter(const Path& hwmon) {
  for (const std::string& entry : names_in(hwmon)) {
    const Path chip = hwmon / entry;
    if (first_line(chip / "name") != "power_meter") continue;
    if (!first_line(chip / "power1_oem_info").empty()) continue;
    auto sensor = std::make_unique<FileSensor>("acpi power meter");
    FileNumber number{.channel = power_channel("acpi power1_average", run::ReadingKind::average),
                      .files = {chip / "power1_average"},
                      .unit = 1e-6,
                      .moduli = {}};
    if (const auto ms = KeptFile(chip / "power1_average_interval").number())
      number.channel.about.window = *ms * unit::ms;
    sensor->add(std::move(number), what, "");
    if (!sensor->channels().empty()) return sensor;
  }
  return nullptr;
}

bool may_use_ipmi(const Path& dev) {
  for (const char* const name : {"ipmi0", "ipmi/0", "ipmidev/0"})
    if (access((dev / name).c_str(), R_OK | W_OK) == 0) return true;
  return false;
}

std::unique_ptr<Sensor> open_ipmi(const SensorOptions& options, std::vector<Gap>& gaps) {
  const bool there = std::filesystem::exists(options.paths.dev / "ipmi0");
  if (!may_use_ipmi(options.paths.dev)) {
    gaps.push_back({what,
                    there ? "/dev/ipmi0 is not readable by this user"
                          : "no BMC (/dev/ipmi0), ACPI power meter or Cray pm_counters",
                    there ? "sudo setfacl -m u:$USER:rw /dev/ipmi0"
                          : "modprobe ipmi_devintf ipmi_si; or --node-power-command for Redfish, a "
                            "PDU or a meter"});
    return nullptr;
  }
  return open_command("ipmi",
                      {.command = {options.paths.ipmitool, "dcmi", "power", "reading"},
                       .parse = parse_dcmi_power,
                       .channel = power_channel("ipmi dcmi", run::ReadingKind::instant),
                       .period = options.node_power_period},
                      gaps, "apt install ipmitool");
}

}  // namespace

std::unique_ptr<Sensor> open_node_power(const SensorOptions& options, std::vector<Gap>& gaps) {
  if (!options.node_power_command.empty())
    return open_command("node power command",
                        {.command = {"/bin/sh", "-c", options.node_power_command},
                         .parse = plain_watts,
                         .channel = power_channel("command", run::ReadingKind::instant),
                         .period = options.node_power_period},
                        gaps, "a command that prints the node's power in W");
  // Cray's own counters are opened with the others, as they say more than power.
  if (std::filesystem::exists(options.paths.sysfs / "cray/pm_counters/power")) return nullptr;
  if (auto meter = open_meter(options.paths.sysfs / "class/hwmon")) return meter;
  return open_ipmi(options, gaps);
}

}  // namespace triplepoint::telemetry::host
