// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "triplepoint/base/json.h"
#include "triplepoint/base/result.h"

#include "triplepoint/metrics/economics/score_card.h"

namespace {

using namespace triplepoint;

const metrics::Suite& suite() {
  static const metrics::Suite one = *metrics::load_suite(spec::default_library(), "node-v1");
  return one;
}

/// What reads as a card can be scored against itself, written, and read again as the same card.
void play_card(std::string_view text) {
  const auto json = parse_json(text, "fuzz");
  if (!json) return;
  const auto card = metrics::card_from_json(*json, "fuzz");
  if (!card) return;
  const metrics::CardScore score = metrics::score(*card, *card, suite());
  const std::string written = json_text(metrics::card_json(*card, &score));
  const auto again = metrics::card_from_json(*parse_json(written, "again"), "again");
  TPT_ENSURE(again.has_value());
  TPT_ENSURE(json_text(metrics::card_json(*again, nullptr)) ==
             json_text(metrics::card_json(*card, nullptr)));
}

}  // namespace

/// Suites (TOML) and cards (JSON) of the standard suite.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const spec::Library library = spec::default_library();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  play_card(text);
  (void)metrics::parse_suite(library, text, "fuzz");
  return 0;
}
