// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/pages/html.h"

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

/// One question about a job that a chart answers.
struct Measure {
  std::string id;
  std::string key, peak_key;    // of results.json; the peak may have none
  bool high_is_news = true;     // the title names the highest; else the lowest
  double low = 0;               // where the axis begins
  std::string superlative;      // "is fastest"
  std::string peak_words = {};  // what the mark shows
  std::string name = {};        // with what else it shows: "temperature, mean and peak"
  std::string unit = {};
};

/// Speed and energy; then power, heat and clocks. Inference has times of tokens where training has
/// an efficiency.
std::vector<Measure> measures_of_speed(spec::Task task);
std::vector<Measure> measures_of_heat();
/// What is followed over the microbatch size.
std::vector<Measure> measures_of_sweeps(spec::Task task);

/// A standard deviation, three digits. Below 0.0005 of its unit it is what rounding leaves of equal
/// numbers: "0".
std::string deviation_text(double deviation);

}  // namespace triplepoint::report
