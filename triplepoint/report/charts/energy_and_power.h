// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/metrics/run/power_profile.h"
#include "triplepoint/report/findings/run_findings.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {

/// Joules of one step by what they were spent on, and whose they are.
struct NamedLedger {
  std::string name;
  const std::map<std::string, double>* joules = nullptr;
};

/// A bar per ledger, stacked by use, the largest use first; the title names it.
answers::Figure energy_ledger_figure(const std::vector<NamedLedger>& ledgers);

/// "All nodes together swing by ...", where they swing by more than a tenth of their peak.
std::optional<RunFinding> swing_finding(const metrics::PowerProfile& profile);

}  // namespace triplepoint::report
