// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/search/plan_answer.h"

namespace triplepoint::app {

using search::PlanQuestion;

/// The two plans of --explain: numbers of the ranking, or files.
Result<std::pair<search::Finalist, search::Finalist>> explained_plans(const spec::Library&,
                                                                      const PlanQuestion&,
                                                                      const search::Ranking&,
                                                                      const std::string& names);

/// The best plans as 1-job.toml, 1-megatron.sh, 1-nemo.yaml, 2-... in a folder; a
/// text that says so.
Result<std::string> write_plans(const spec::Library&, const PlanQuestion&, const search::Ranking&,
                                const Path& folder);

}  // namespace triplepoint::app
