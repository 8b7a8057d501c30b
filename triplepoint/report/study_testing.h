// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/text.h"

#include "triplepoint/report/findings/findings.h"
#include "triplepoint/report/study.h"

namespace triplepoint::report {

/// A study with made-up but plausible results, for tests of pages and tables. Four layouts, four
/// variants, a microbatch sweep, jobs without room, and an invalid job.
Study sample_study();

/// One job of it with series over time, for tests of the run page.
run::Run sample_run();

/// With common blanks where a page keeps a number and its unit together.
inline std::string with_plain_blanks(std::string text) {
  constexpr std::string_view kept = "\u00a0";
  for (std::size_t at = text.find(kept); at != std::string::npos; at = text.find(kept, at))
    text.replace(at, kept.size(), " ");
  return text;
}

inline std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

/// What is wrong with a sentence, given results.json: a number that is no evidence and no part of a
/// name, evidence that the keys do not yield, a printed number that is not the rounded one, a name
/// that is not what the job's configuration says. Empty: all numbers check out. For tests.
std::vector<std::string> faults_of(const Finding& sentence, const Json& results);

}  // namespace triplepoint::report
