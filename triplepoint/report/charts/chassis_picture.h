// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "triplepoint/run/run.h"
#include "triplepoint/spec/cluster.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {

/// What a page with several pictures tells them apart by.
struct ChassisOptions {
  std::string id = "chassis";
  std::string title = {};  // empty: how much hotter the rear is
  // The second line of each device's slot, in the order of the devices; empty: its power.
  std::vector<std::string> slot_words = {};
  // Ends of the colour scale; absent: those of the temperatures.
  std::optional<std::pair<double, double>> range = std::nullopt;
  // With each GPU's curves, as <template data-gpu="its number">, for the page's script.
  bool curves = false;
};

/// Power, temperature, clock and throttling of one GPU over the run, below each other. Empty
/// without series.
std::string gpu_curves_svg(const run::Run&, int32_t device);

/// Each node from its inlet (left) to its outlet (right), its slots coloured by temperature, with
/// the air or the coolant that passes them. Of more than eight nodes: the hottest four, two in the
/// middle, the coolest two. Empty without a job that says how the nodes are built, or without
/// temperatures.
Drawing chassis_figure(const run::Run&, const metrics::Metrics&, const ChassisOptions& = {});

}  // namespace triplepoint::report
