// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/report/bar_chart.h"
#include "triplepoint/report/html.h"

namespace triplepoint::report {

/// A part of a stack: its name, its colour's class, its amount.
struct NamedPart {
  std::string name, style;
  double value = 0;
};

std::vector<NamedPart> kernel_parts(const metrics::KernelSeconds& kernels);  // seconds
std::vector<NamedPart> memory_parts(const run::MemoryUse& memory);           // GiB

/// The same as pieces of a bar, with what they say when pointed at.
std::vector<BarPart> bar_parts_of(const std::vector<NamedPart>& parts, const std::string& unit);
std::vector<LegendEntry> legend_of(const std::vector<NamedPart>& parts);

}  // namespace triplepoint::report
