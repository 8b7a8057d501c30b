// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/report/study.h"

namespace triplepoint::report {

/// A number of results.json: a job's key ("power_w.mean"), or with no job a key of the whole study.
struct Term {
  std::string job, key;
};

/// Where a number in a sentence comes from.
struct Evidence {
  enum class Form {
    value,       // product of `above` over product of `below`
    more,        // that - 1
    less,        // 1 - that
    difference,  // above[0] - below[0]
  };
  Form form = Form::value;
  std::vector<Term> above, below;
  double value = 0;     // the number itself, before it was rounded
  std::string printed;  // as the sentence has it, with its unit
};

/// The formula in words: "tokens_per_s of a / tokens_per_s of b - 1".
std::string formula_of(const Evidence& evidence);

/// A label of a job or a group in a sentence. Its digits belong to the configuration.
struct Name {
  std::string text, job;
};

/// What follows a ratio: "2.4 times" `times`, "31 %" `more`, "12 %" `less`.
struct RatioWords {
  std::string_view times, more, less;
};
inline constexpr RatioWords of_tokens = {" the tokens/s", " more tokens/s", " fewer tokens/s"};

/// One plain sentence about a study, made of its numbers. Words have no digits: every
/// number is either evidence or part of a name.
class Finding {
 public:
  explicit Finding(std::string anchor) : anchor_(std::move(anchor)) {}

  Finding& say(std::string_view words);
  Finding& name(const StudyRow& row);                       // "TP8-PP4, microbatch 2"
  Finding& name(const StudyRow& row, std::string_view as);  // any label made of its plan
  Finding& group(const StudyRow& row);                      // "gpt3-175b on 32 x H200"
  Finding& group_and_name(const StudyRow& row);             // both, with a comma
  Finding& gpu(const StudyRow& row, int32_t index);         // "GPU 14"
  /// A number of one job, with its unit.
  Finding& number(const StudyRow& row, std::string_view key, std::string_view unit, int digits = 3);
  Finding& share(const StudyRow& row, std::string_view key);  // as per cent
  /// One part of a whole of the same job, as per cent.
  Finding& share_of(const StudyRow& row, std::string_view key, std::string_view whole);
  /// "13.36 instead of 13.43 s", with as many digits as tell the two apart; "the same 13.4 s".
  Finding& instead(const StudyRow& row, const StudyRow& other, std::string_view key,
                   std::string_view unit);
  /// One job's number against another's, in the form that reads best.
  Finding& change(const StudyRow& row, const StudyRow& over, std::string_view key,
                  const RatioWords& words);
  Finding& ratio(std::vector<Term> above, std::vector<Term> below, double value,
                 const RatioWords& words);
  Finding& difference(const StudyRow& row, std::string_view key, const StudyRow& from,
                      std::string_view other, std::string_view unit);
  Finding& add(Evidence evidence);

  const std::string& text() const { return text_; }
  const std::string& html() const { return html_; }
  const std::string& anchor() const { return anchor_; }
  const std::vector<Evidence>& evidence() const { return evidence_; }
  const std::vector<Name>& names() const { return names_; }

 private:
  std::string anchor_, text_, html_;
  std::vector<Evidence> evidence_;
  std::vector<Name> names_;
};

/// ", 12 % less GPU energy a token", or of steps of one batch `node_energy_j`, ", 12 % less node
/// energy"; nothing below half a per cent.
void add_energy_change(Finding&, const StudyRow& from, const StudyRow& to,
                       std::string_view key = "joules_per_token");
/// ", 2.1 °C hotter at its peak"; nothing below half a degree.
void add_heat_change(Finding&, const StudyRow& from, const StudyRow& to);

/// " With stack megatron-core the same change costs 4.3 % of the speed.", where it does not gain
/// about as much. Whether the two were compared: simulated with that stack.
bool add_default_stack(Finding&, const StudyRow& from, const StudyRow& to);
/// Begin of the keys of such gains in results.json: "default_stack_speed.<from>-to-<to>".
inline constexpr std::string_view default_stack_key = "default_stack_speed.";

}  // namespace triplepoint::report
