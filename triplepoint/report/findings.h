// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/report/study.h"

namespace triplepoint::report {

/// Where a number in a sentence comes from: a job's key of results.json, or the ratio of two jobs'.
struct Evidence {
  std::string job, key;  // "power_w.mean"
  std::string over_job;  // not empty: divided by this job's ...
  std::string over_key;  // ... value of this key
  double value = 0;      // the number itself, before it was rounded
  std::string printed;   // as the sentence has it
};

/// One plain sentence about a study, made of its numbers.
class Finding {
 public:
  explicit Finding(std::string anchor) : anchor_(std::move(anchor)) {}

  Finding& say(std::string_view words);
  /// A number of one job. `printed` is how the sentence writes it, with its unit.
  Finding& number(const StudyRow& row, std::string_view key, double value, std::string printed);
  /// How many times one number is another.
  Finding& ratio(const StudyRow& row, const StudyRow& over, std::string_view key, double value,
                 std::string printed);
  Finding& ratio_of_keys(const StudyRow& row, std::string_view key, std::string_view over_key,
                         double value, std::string printed);

  const std::string& text() const { return text_; }
  const std::string& html() const { return html_; }
  const std::string& anchor() const { return anchor_; }
  const std::vector<Evidence>& evidence() const { return evidence_; }

 private:
  Finding& add(Evidence evidence);

  std::string anchor_, text_, html_;
  std::vector<Evidence> evidence_;
};

/// What stands out, most important first. Each looks over the whole study for its strongest case.
std::vector<Finding> find_findings(const Study& study);

}  // namespace triplepoint::report
