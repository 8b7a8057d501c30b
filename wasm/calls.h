// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace triplepoint::explore {

/// What the page asks, by name, and its answer; {"error": sentence} where there is none. A request
/// names a job as {"flags": {"--tp": "8", "--fault": ["...", "..."], "--sequence-parallel": ""},
/// "file": "/dropped/config.json", "beginning": job.toml as text}; flags of `simulate` stand among
/// them.
///
///   flags     every flag with its help and choices, and the names of the library
///   step      step time and memory alone, in a few milliseconds
///   simulate  the verdict, key figures, and the figures of the run's page
///   results   of the same simulation what `simulate --format json` prints
///   legal     "values": {flag: [texts]}: for each the sentence that refuses it, or null
///   plan      "plan": flags of `plan`: its JSON, and the flags of each plan
///   compare   "sides": [{"name", "flags", ...}]: what differs, in sentences and charts
///   curve     "title", "x", "unit", "positions", "values": a line chart
///   copy      the job as command, Python, job.toml and launch files
///   read      "file" of mount(): its job as job.toml, on the cluster of "flags" where it names
///   page      the run's page, as `report` writes it, with "command" as what made it
///   gpu       "gpu": its number: its curves over the run
std::string call(std::string_view name, std::string_view request);

}  // namespace triplepoint::explore
