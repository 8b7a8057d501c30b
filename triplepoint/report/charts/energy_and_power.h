// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {

/// Joules of one step by what they were spent on, and whose they are.
struct NamedLedger {
  std::string name;
  const std::map<std::string, double>* joules = nullptr;
};

/// A bar per ledger, stacked by use, the largest use first; the title names it.
answers::Figure energy_ledger_figure(const std::vector<NamedLedger>& ledgers);

}  // namespace triplepoint::report
