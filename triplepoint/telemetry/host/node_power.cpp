// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/host/node_power.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "triplepoint/base/descriptor.h"
#include "triplepoint/base/files.h"

#include "triplepoint/system/process.h"
#include "triplepoint/telemetry/driver_values.h"
#include "triplepoint/telemetry/host/file_sensor.h"
#include "triplepoint/telemetry/host/host.h"

namespace triplepoint::telemetry::host {
namespace {

constexpr const char* what = "power of the whole node";

Channel power_channel(std::string sensor, run::ReadingKind kind) {
  return node_channel("node_power_w", run::Scope::node, kind, std::move(sensor), Polling::slow);
}

std::optional<double> plain_watts(std::string_view text) {
  const auto watts = leading_number(text);
  return watts && *watts > 0 && plausible_range("node_power_w").holds(*watts) ? watts
                                                                              : std::nullopt;
}

/// The program, or the flag whose line a shell runs: the line itself may hold a password.
std::string name_of(const std::vector<std::string>& command) {
  return command.front() == "/bin/sh" ? "--node-power-command" : command.front();
}

/// Asks once, to see whether it works; then a thread goes on asking.
std::unique_ptr<Sensor> open_command(std::string name, CommandNumber number, std::vector<Gap>& gaps,
                                     const std::string& remedy) {
  number.channel.about.period = number.period;
  const auto text = output_of(number.command, number.limit);
  const auto first = text ? number.parse(*text) : std::nullopt;
  if (first) return std::make_unique<CommandSensor>(std::move(name), std::move(number), *first);
  gaps.push_back(
      {what, text ? name_of(number.command) + " prints no power" : text.error().what, remedy});
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
                      .unit = 1e-6};
    if (const auto ms = OpenFile(chip / "power1_average_interval").number())
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
  const bool there = path_exists(options.paths.dev / "ipmi0");
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

constexpr std::size_t most_output = 65536;
constexpr useconds_t look_again_us = 20'000;

/// Reads until the end of the pipe; false if that takes longer than the limit.
bool read_all(int from, int64_t end_ns, const std::function<bool()>& stopped, std::string& text) {
  constexpr int64_t look_every_ms = 100;
  std::array<char, 4096> buffer{};
  while (true) {
    const int64_t left_ms = (end_ns - monotonic_now_ns()) / 1'000'000;
    if (left_ms <= 0 || (stopped && stopped())) return false;
    pollfd ready{.fd = from, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, static_cast<int>(std::min(left_ms, look_every_ms))) == 0) continue;
    const ssize_t got = read(from, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    if (text.size() < most_output) text.append(buffer.data(), as_size(got));
  }
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
  if (path_exists(options.paths.sysfs / "cray/pm_counters/power")) return nullptr;
  if (auto meter = open_meter(options.paths.sysfs / "class/hwmon")) return meter;
  return open_ipmi(options, gaps);
}

std::unique_ptr<Sensor> open_cray(const Path& sysfs, const std::vector<std::string>& read_already) {
  auto sensor = std::make_unique<FileSensor>("cray");
  for (const Kind& kind : kinds) {
    const Path file = sysfs / "cray/pm_counters" / kind.file;
    if (std::ranges::count(read_already, kind.signal) > 0 || !path_exists(file)) continue;
    FileNumber number{
        .channel = node_channel(kind.signal, kind.scope, kind.kind,
                                std::string("cray pm_counters ") + kind.file, Polling::every_tick),
        .files = {file},
        .has_stamp = true};
    number.channel.about.period = 100 * unit::ms;
    sensor->add(std::move(number), kind.signal, "");
  }
  if (sensor->channels().empty()) return nullptr;
  return sensor;
}

Result<std::string> output_of(const std::vector<std::string>& command, Seconds limit,
                              const std::function<bool()>& stopped) {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return error("no pipe (too many open files?)");
  const Descriptor out(ends[0]), nothing(open("/dev/null", O_WRONLY | O_CLOEXEC));
  Descriptor in(ends[1]);
  sigset_t none;
  sigemptyset(&none);
  const pid_t pid = TPT_TRY(spawn(
      {.command = command, .blocked = none, .output = in.number(), .errors = nothing.number()}));
  in.close();
  std::string text;
  const int64_t end_ns = monotonic_now_ns() + static_cast<int64_t>(limit / unit::ns);
  const bool is_read = read_all(out.number(), end_ns, stopped, text);
  std::optional<int> code = exit_code_of(pid);
  for (; is_read && !code && monotonic_now_ns() < end_ns; code = exit_code_of(pid))
    usleep(look_again_us);
  if (!is_read || !code) {
    kill(-pid, SIGKILL);
    // In the middle of a call that does not return it is still there.
    for (int i = 0; i < 25 && !code; ++i, code = exit_code_of(pid))
      usleep(look_again_us);
    return error("{} takes longer than {:.0f} s", name_of(command), limit / unit::s);
  }
  if (code != 0) return error("{} failed (status {})", name_of(command), *code);
  return text;
}

CommandSensor::CommandSensor(std::string name, CommandNumber number, double first)
    : name_(std::move(name)),
      number_(std::move(number)),
      channels_{number_.channel},
      value_(first),
      stamp_ns_(monotonic_now_ns()),
      asking_([this] { ask_again_and_again(); }) {}

CommandSensor::~CommandSensor() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  asking_.join();
}

void CommandSensor::ask_again_and_again() {
  const auto period = std::chrono::nanoseconds(static_cast<int64_t>(number_.period / unit::ns));
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, period, [this] { return stop_.load(); })) {
    lock.unlock();
    ask();
    lock.lock();
  }
}

void CommandSensor::ask() {
  const int64_t begin = monotonic_now_ns();
  const auto text = output_of(number_.command, number_.limit, [this] { return stop_.load(); });
  const int64_t end = monotonic_now_ns();
  const auto value = text ? number_.parse(*text) : std::nullopt;
  const std::lock_guard lock(mutex_);
  if (value) {
    value_ = *value;
    stamp_ns_ = begin + (end - begin) / 2;
    failing_ = false;
    return;
  }
  if (std::exchange(failing_, true)) return;
  troubles_.push_back(
      fmt::format("{} cannot be read ({}); its series has a gap", channels_.front().about.signal,
                  text ? name_of(number_.command) + " prints no number" : text.error().what));
}

void CommandSensor::read(bool slow, std::vector<Reading>& readings) {
  if (!slow) return;
  // Never waits for the thread that asks: without the lock there is no reading this time.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  const auto oldest = static_cast<int64_t>(3 * number_.period / unit::ns);
  if (lock && monotonic_now_ns() - stamp_ns_ <= oldest) readings.push_back({0, stamp_ns_, value_});
}

std::vector<std::string> CommandSensor::take_troubles() {
  const std::lock_guard lock(mutex_);
  return std::exchange(troubles_, {});
}

}  // namespace triplepoint::telemetry::host
