// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "triplepoint/base/files.h"
#include "triplepoint/base/process.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/search/finalists.h"
#include "triplepoint/search/search_parts.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::study {

/// What a search for plans was asked, and how it is done.
struct PlanQuestion {
  spec::Job base;
  search::Objective objective;
  search::Limits limits;
  std::string fixed;    // --fix
  bool pareto = false;  // plans that are thrifty alone widen the front
  size_t top = 5;
  int threads = 1;
  const search::WorkerPool* pool = nullptr;
  std::function<bool()> stopped = interrupted;

  search::SearchOptions search_options() const;
};

/// Told how far a search is, as SearchOptions has it.
struct SearchWatch {
  std::function<void(const char* what, size_t total)> begin;
  std::function<void()> advance;
};

/// The best plans of the space; an error where there is none, unless the search was stopped.
Result<search::Ranking> find_plans(const SearchWatch&, const search::Space&, const PlanQuestion&,
                                   const std::optional<std::string>& merge = {});

/// With bars: the best plans of the space, or of the parts in the folder `merge`; an error where
/// there is none, unless the search was interrupted.
Result<search::Ranking> find_plans(tui::Console&, const search::Space&, const PlanQuestion&,
                                   const std::optional<std::string>& merge);

/// Writes the best plans of one part of the space into a folder and leaves the rest to who merges.
Result<void> search_shard(tui::Console&, const search::Space&, const PlanQuestion&,
                          const search::Shard&, const Path& folder);

/// The two plans of --explain: numbers of the ranking, or files.
Result<std::pair<search::Finalist, search::Finalist>> explained_plans(const spec::Library&,
                                                                      const PlanQuestion&,
                                                                      const search::Ranking&,
                                                                      const std::string& names);

/// The best plans as 1-job.toml, 1-megatron.sh, 1-nemo.yaml, 2-... in a folder.
Result<void> write_plans(tui::Console&, const spec::Library&, const PlanQuestion&,
                         const search::Ranking&, const Path& folder);

}  // namespace triplepoint::study
