// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/metrics.h"

namespace triplepoint::report {

/// A study or a run of a folder, with the headline numbers of the index page.
struct IndexEntry {
  std::string name, link;  // link: relative, encoded
  bool is_study = false;
  std::string state;    // "simulated", "12 of 34 jobs", "growing", or what is wrong with the file
  std::string changed;  // "2026-11-21 19:30:02 UTC"
  bool is_broken = false;
  std::optional<double> num_gpus, step_time_s, tokens_per_s_per_gpu, mfu, joules_per_token;
  metrics::EnergyScope energy_scope = metrics::EnergyScope::gpu;  // of the joules
  std::optional<double> power_mean_w, temperature_peak_c;
};

/// Headline numbers of a run without its timeline and series.
IndexEntry index_entry(const run::Run& header);

/// The page of a folder: studies, then runs, newest first; numbers sort, words filter.
std::string index_page(const std::string& folder, const std::vector<IndexEntry>& entries);

/// A page with one sentence: what is being made, or what went wrong.
std::string notice_page(const std::string& title, const std::string& sentence);

}  // namespace triplepoint::report
