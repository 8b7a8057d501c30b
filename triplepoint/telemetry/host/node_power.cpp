// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/host/node_power.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "triplepoint/base/files.h"

#include "triplepoint/telemetry/driver_values.h"
#include "triplepoint/telemetry/host/file_sensor.h"
#include "triplepoint/telemetry/host/host.h"

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
                      .unit = 1e-6,
                      .moduli = {}};
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
      Item item{.file = OpenFile(folder / kind.file),
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
    OpenFile file;
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

namespace {

constexpr std::size_t most_output = 65536;

/// The two ends of a pipe, closed at the end.
class Pipe {
 public:
  Pipe() { works_ = pipe2(ends_.data(), O_CLOEXEC) == 0; }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  Pipe(Pipe&&) = delete;
  Pipe& operator=(Pipe&&) = delete;
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  bool works() const { return works_; }
  int end(std::size_t which) const { return ends_.at(which); }
  void close_end(std::size_t which) {
    if (ends_.at(which) >= 0) close(ends_.at(which));
    ends_.at(which) = -1;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
  bool works_ = false;
};

/// Starts the program in its own process group: Ctrl-C at the terminal is not for it, and it
/// can be killed with all it started.
int start(const std::vector<std::string>& command, int output, pid_t& pid) {
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command)
    words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t how;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&how);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output, 1);
  posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&how, &none);
  posix_spawnattr_setpgroup(&how, 0);
  posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  const int failed = posix_spawnp(&pid, words[0], &files, &how, words.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&how);
  return failed;
}

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
    if (text.size() < most_output) text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

/// Of a program that was killed: in the middle of a call that does not return it is still there.
int status_after_kill(pid_t pid) {
  int status = 0;
  for (int i = 0; i < 25 && waitpid(pid, &status, WNOHANG) == 0; ++i)
    usleep(20'000);
  return status;
}

}  // namespace

Result<std::string> output_of(const std::vector<std::string>& command, Seconds limit,
                              const std::function<bool()>& stopped) {
  Pipe pipe;
  pid_t pid = 0;
  if (!pipe.works()) return error("no pipe (too many open files?)");
  if (const int failed = start(command, pipe.end(1), pid); failed != 0)
    return error(fmt::format("{}: {}", command.front(), std::generic_category().message(failed)));
  pipe.close_end(1);
  std::string text;
  const auto limit_ns = static_cast<int64_t>(limit / unit::ns);
  const bool ended = read_all(pipe.end(0), monotonic_now_ns() + limit_ns, stopped, text);
  int status = 0;
  if (!ended) {
    kill(-pid, SIGKILL);
    status = status_after_kill(pid);
  }
  while (ended && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ended)
    return error(fmt::format("{} takes longer than {:.0f} s", name_of(command), limit / unit::s));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return error(fmt::format("{} failed (status {})", name_of(command),
                             WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)));
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
