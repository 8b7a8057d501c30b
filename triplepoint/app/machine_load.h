// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace triplepoint::app {

/// Seconds of all hardware threads of this machine since it was started, as /proc/stat has them.
struct MachineSeconds {
  double busy = 0;  // user, system, interrupts, and what a hypervisor gave to others
  double idle = 0;  // and waiting for disks

  double all() const { return busy + idle; }
};

/// Nothing where the text is not of /proc/stat.
std::optional<MachineSeconds> machine_seconds_of(const std::string& proc_stat);
std::optional<MachineSeconds> machine_seconds();

/// CPU seconds of this process and of its children that have ended, with theirs.
double own_cpu_seconds();

/// How that note begins.
inline constexpr std::string_view busy_machine_words = "other programs used";

/// What is said of a command that others have slowed down: they used more than a fifth of the
/// machine, and less than a fifth was idle. Nothing where it had the machine for itself.
/// `own`: CPU seconds of the command.
std::optional<std::string> busy_machine_note(const MachineSeconds& begin, const MachineSeconds& end,
                                             double own);

}  // namespace triplepoint::app
