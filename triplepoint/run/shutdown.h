// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "triplepoint/base/units.h"

#include "triplepoint/run/run.h"

namespace triplepoint::run {

/// A device that heat has switched off, and with it the job.
struct Shutdown {
  int32_t device = 0;
  double die_c = 0;
  std::optional<Seconds> time;  // since the run's beginning; absent: where it would come to rest
};

/// Keeps it among the run's facts, and says it in a note.
void record_shutdown(Run&, const Shutdown&, Celsius shutdown_temperature);
std::optional<Shutdown> shutdown_of(const Run&);

/// Whether it trained at all: neither memory nor heat forbade it.
bool has_trained(const Run&);
/// "ok", "oom" or "shutdown".
std::string_view verdict_of(const Run&);

}  // namespace triplepoint::run
