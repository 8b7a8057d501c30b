// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "triplepoint/run/run.h"

namespace triplepoint::telemetry {

/// How a signal is called in Prometheus: base units in the name, _total for counters.
struct MetricName {
  std::string name, help;
  bool counter = false;
  double scale = 1;                // of the value: MHz to hertz, ns to seconds
  std::string label, label_value;  // one more label: reason="software_power_cap"; "" for none
  friend bool operator==(const MetricName&, const MetricName&) = default;
};

/// Well-known signals have names and help of their own; others are named after their unit's suffix
/// (_w, _c, _j, _mhz, _bytes, _b, _s, _ns), so that a new signal needs no change here.
MetricName metric_of(const run::SeriesSource&);

/// What dcgm-exporter calls the same; nothing where it has no such field. Its units: W, C, MHz, %,
/// mJ, MiB. Source: NVIDIA/dcgm-exporter, etc/default-counters.csv (names are facts of its API).
std::optional<MetricName> dcgm_metric_of(const run::SeriesSource&);

}  // namespace triplepoint::telemetry
