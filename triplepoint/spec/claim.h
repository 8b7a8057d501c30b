// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace triplepoint::spec {

/// How the numbers of two jobs are compared: a / b, or a - b.
enum class Comparison { ratio, difference };
/// Which of the jobs of a pattern count: each one, or the one with the highest or lowest number.
enum class Pick { each, highest, lowest };

/// What a publication says of the jobs of a study, so that results can be held against it:
///
///   least <= comparison(number of a job, number of its counterpart) <= most
///
/// for at least `share` of the pairs.
struct Claim {
  std::string text;   // in our words
  std::string place;  // where it stands in the publication
  std::string jobs;   // names of jobs; * stands for any text
  std::string
      against;         // their counterparts, with the same text for each *; none: the number itself
  std::string number;  // key of results.json, or a quotient of two: "a / b"
  Comparison comparison = Comparison::ratio;
  Pick pick = Pick::each;
  std::optional<double> least, most;
  double share = 1;    // of the pairs that have to agree
  std::string remark;  // why it cannot be said, or what the difference comes from
  friend bool operator==(const Claim&, const Claim&) = default;
};

}  // namespace triplepoint::spec
