// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/data_table.h"
#include "triplepoint/base/json_fwd.h"

#include "triplepoint/metrics/run/prediction_interval.h"
#include "triplepoint/search/finalists.h"

namespace triplepoint::search {

/// "TP8 PP4 VPP6, mbs 2, ZeRO-1, recompute full (3), SP, overlap tp+dp".
std::string plan_text(const spec::Plan&, const search::Layout&);
/// The same, with the power limit that the plan needs: "..., 600 W".
std::string plan_text(const search::Finalist&);

/// The ranking: what each plan reaches, how probably it really is slower than the first, and why.
DataTable ranking_table(const spec::Job&, const std::vector<search::Finalist>& ranked, size_t top,
                        const metrics::PredictionIntervals&);

/// Two plans side by side, term by term, largest difference first.
DataTable comparison_table(const search::Finalist& a, const search::Finalist& b);

/// Everything a program may want to know of a plan.
Json finalist_json(const spec::Job&, const search::Finalist&);
Json counts_json(const search::SearchCounts&);

/// How the search got there: plans, plans that did not fit, simulated plans.
std::string counts_text(const search::SearchCounts&);

}  // namespace triplepoint::search
