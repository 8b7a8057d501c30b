// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/run/run.h"

namespace triplepoint::report {

/// What `triplepoint trace` says about a run's timeline, as sections of its page: where the time
/// went by rank, collectives, who was late, the critical path. Of timelines with more than a
/// million spans only where the time went, and that is said. Empty for a run without device work.
struct TraceSection {
  std::string html;
  bool names_stragglers = false;  // it says who was waited for
  std::string straggler;          // in a sentence
};
TraceSection trace_section(const run::Run&);

}  // namespace triplepoint::report
