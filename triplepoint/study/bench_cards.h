// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/base/data_table.h"
#include "triplepoint/base/json_fwd.h"

#include "triplepoint/metrics/economics/score_card.h"
#include "triplepoint/report/pages/score_page.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::study {

/// Cards side by side: a row per job and card.
DataTable cards_table(const std::vector<report::ScoredCard>&, const metrics::Suite&);
Json cards_json(const std::vector<report::ScoredCard>&, const metrics::ScoreCard& reference,
                const metrics::Suite&);
void print_cards(tui::Console&, const std::vector<report::ScoredCard>&,
                 const metrics::ScoreCard& reference, const metrics::Suite&);

}  // namespace triplepoint::study
