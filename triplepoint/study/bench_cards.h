// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/data_table.h"
#include "triplepoint/base/files.h"
#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/metrics/economics/score_card.h"
#include "triplepoint/report/pages/answer_pages.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::study {

/// Cards of one suite with their scores.
struct Scoring {
  metrics::Suite suite;
  metrics::ScoreCard reference;  // scores 1
  std::vector<report::ScoredCard> cards;
};

Result<metrics::ScoreCard> read_card(const std::string& file);
/// Two cards or more, all of one suite.
Result<std::vector<metrics::ScoreCard>> read_cards(const std::vector<std::string>& files);
/// The reference is this file's card, else the one published with the suite, else the first.
Result<Scoring> score_cards(const spec::Library&, const metrics::Suite&,
                            std::vector<metrics::ScoreCard>,
                            const std::optional<std::string>& reference);

/// Cards side by side: a row per job and card.
DataTable cards_table(const Scoring&);
Json cards_json(const Scoring&);
void print_cards(tui::Console&, const Scoring&);
/// card.html, and the JSON of each card.
Result<void> write_cards(const Scoring&, const Path& folder);
/// A card's name as that of a file.
std::string file_stem(const std::string& name);

}  // namespace triplepoint::study
