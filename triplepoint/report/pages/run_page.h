// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"

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
std::vector<Drawing> run_figures(const run::Run& run, const metrics::Metrics& metrics);

/// The page of one run: key figures, findings, every rank over time with power, temperature, clock
/// and throttling on the same axis, kernel seconds and memory by stage, the chassis with its heat,
/// late ranks, where the energy went, and where the run comes from. One HTML file that needs no
/// network. `numbers`: what a prediction rests on, if it is known.
std::string run_page(const run::Run& run, const metrics::Metrics& metrics,
                     const std::vector<spec::Provenance>& numbers = {});

/// " 93 of its 157 parameters are assumed (see the sources)."; empty without any.
std::string assumed_text(const std::vector<spec::Provenance>&);

/// Sections of a run's page that say where it comes from: what made it, from which job and on which
/// hosts; each sensor with its scope, period and number of readings; and of a prediction, the
/// numbers it rests on, by kind and source.
std::string manifest_sections(const run::Run&, const std::vector<spec::Provenance>&);

/// What the page's timeline viewer draws: web/src/timeline_data.ts defines the format. Null for a
/// run without a timeline.
///
/// Patterns are sent as patterns, so that a step of a thousand GPUs stays small, and ranks that do
/// the same at the same time are one row. Where single spans of one lane overlap (calls inside
/// calls), they are spread over further lanes. Beyond `most_spans` single spans, host spans go
/// first, then the shortest; the note says what is left out.
Json timeline_data(const run::Run&, std::size_t most_spans = 250'000);

/// A column of the format: a number where all entries are equal, else base64 of LEB128 varints of
/// zigzag differences. Values are below 2^52.
Json encoded_column(const std::vector<int64_t>& values);

}  // namespace triplepoint::report
