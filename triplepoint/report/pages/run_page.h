// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/run/run.h"
#include "triplepoint/spec/sources.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {

/// The head of a run's page: what ran, where, whether it fits, and the key figures that are known.
struct RunHead {
  std::string title, facts;  // plain text
  std::vector<answers::KeyFigure> tiles;
};
RunHead run_head(const run::Run& run, const metrics::Metrics& metrics);

/// The figures of a run's page that need no script: pipeline, kernel seconds, memory, the chassis,
/// energy and power over a step; those that are known.
std::vector<Figure> run_figures(const run::Run& run, const metrics::Metrics& metrics);

/// The page of one run: key figures, findings, every rank over time with power, temperature, clock
/// and throttling on the same axis, kernel seconds and memory by stage, the chassis with its heat,
/// late ranks, where the energy went, and where the run comes from. One HTML file that needs no
/// network. `numbers`: what a prediction rests on, if it is known.
std::string run_page(const run::Run& run, const metrics::Metrics& metrics,
                     const std::vector<spec::Provenance>& numbers = {});

}  // namespace triplepoint::report
