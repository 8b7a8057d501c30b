// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/search/finalists.h"
#include "triplepoint/system/process.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::study {

/// What a search for plans was asked, and how it is done.
struct PlanQuestion {
  spec::Job base;
  search::Objective objective;
  search::Limits limits;
  bool pareto = false;  // plans that are thrifty alone widen the front
  size_t top = 5;
  int threads = 1;
  std::function<bool()> stopped = interrupted;

  search::SearchOptions search_options() const;
};

/// Told how far a search is, as SearchOptions has it.
struct SearchWatch {
  std::function<void(const char* what, size_t total)> begin;
  std::function<void()> advance;
};

/// The best plans of the space; an error where there is none, unless the search was stopped.
Result<search::Ranking> find_plans(const SearchWatch&, const search::Space&, const PlanQuestion&);

/// The same with bars.
Result<search::Ranking> find_plans(tui::Console&, const search::Space&, const PlanQuestion&);

/// The two plans of --explain: numbers of the ranking, or files.
Result<std::pair<search::Finalist, search::Finalist>> explained_plans(const spec::Library&,
                                                                      const PlanQuestion&,
                                                                      const search::Ranking&,
                                                                      const std::string& names);

/// The best plans as 1-job.toml, 1-megatron.sh, 1-nemo.yaml, 2-... in a folder.
Result<void> write_plans(tui::Console&, const spec::Library&, const PlanQuestion&,
                         const search::Ranking&, const Path& folder);

}  // namespace triplepoint::study
