// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/watch.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/search/finalists.h"

namespace triplepoint::study {

/// What a search for plans was asked, and how it is done.
struct PlanQuestion {
  spec::Job base;
  search::Objective objective;
  search::Limits limits;
  bool pareto = false;  // plans that are thrifty alone widen the front
  size_t top = 5;
  int threads = 1;
  Watch watch = {};

  search::SearchOptions search_options() const;
};

/// The best plans of the space; an error where there is none, unless the search was stopped.
Result<search::Ranking> find_plans(const search::Space&, const PlanQuestion&);

/// The two plans of --explain: numbers of the ranking, or files.
Result<std::pair<search::Finalist, search::Finalist>> explained_plans(const spec::Library&,
                                                                      const PlanQuestion&,
                                                                      const search::Ranking&,
                                                                      const std::string& names);

/// The best plans as 1-job.toml, 1-megatron.sh, 1-nemo.yaml, 2-... in a folder; a
/// text that says so.
Result<std::string> write_plans(const spec::Library&, const PlanQuestion&, const search::Ranking&,
                                const Path& folder);

}  // namespace triplepoint::study
