// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/answers/document.h"
#include "triplepoint/flags/job_results.h"

namespace triplepoint::app {

/// A flag of a job with the values that it takes one after the other.
struct SweptFlag {
  std::string name;  // without dashes: "power-limit"
  std::vector<std::string> values;
};

/// "power-limit=400 W..700 W/50 W": from, to and step; or "tp=2|4|8". At most most_values.
Result<SweptFlag> parse_swept(std::string_view text);
inline constexpr size_t most_values = 1000;

/// A job of a sweep.
struct SweptJob {
  std::vector<std::string> values;  // of each flag
  flags::JobResults results;
  std::string problem;  // why there are none; empty: there are
};

/// What every value leads to: the fastest, the least energy, and curves over the first flag.
answers::Document sweep_answer(const std::vector<SweptFlag>&, const std::vector<SweptJob>&);

}  // namespace triplepoint::app
