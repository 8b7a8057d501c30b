// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/machine_load.h"

#include <algorithm>
#include <array>
#include <sstream>

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "triplepoint/base/files.h"

namespace triplepoint::app {
namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double cpu_seconds_of(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

}  // namespace

std::optional<MachineSeconds> machine_seconds_of(const std::string& proc_stat) {
  std::istringstream words(proc_stat);
  std::string name;
  // user nice system idle iowait irq softirq steal; guests' times are in user and nice.
  std::array<double, 8> ticks{};
  words >> name;
  for (double& one : ticks)
    words >> one;
  if (!words || name != "cpu") return std::nullopt;
  const double per_s = static_cast<double>(sysconf(_SC_CLK_TCK));
  const double idle = ticks[3] + ticks[4];
  double all = 0;
  for (const double one : ticks)
    all += one;
  return MachineSeconds{(all - idle) / per_s, idle / per_s};
}

std::optional<MachineSeconds> machine_seconds() {
  const auto text = read_file("/proc/stat");
  return text ? machine_seconds_of(*text) : std::nullopt;
}

double own_cpu_seconds() {
  return cpu_seconds_of(RUSAGE_SELF) + cpu_seconds_of(RUSAGE_CHILDREN);
}

std::optional<std::string> busy_machine_note(const MachineSeconds& begin, const MachineSeconds& end,
                                             double own) {
  constexpr double much = 0.2;
  const double all = end.all() - begin.all();
  if (!(all > 0)) return std::nullopt;
  const double others = std::max(0.0, end.busy - begin.busy - own) / all;
  const double idle = (end.idle - begin.idle) / all;
  if (others <= much || idle >= much) return std::nullopt;
  return fmt::format(
      "{} {:.0f} % of the processors' time and {:.0f} % was idle: steps are slower than on a "
      "machine without them, and a peak measured meanwhile is too low; measure again without them",
      busy_machine_words, 100 * others, 100 * idle);
}

}  // namespace triplepoint::app
