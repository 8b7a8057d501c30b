// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "triplepoint/spec/job.h"

namespace triplepoint::spec {

/// What an examination of a job has found so far.
class Findings {
 protected:
  template <class... Args>
  void error(DiagnosisCode code, fmt::format_string<Args...> text, Args&&... args) {
    found_.push_back(
        {code, Diagnosis::Severity::error, fmt::format(text, std::forward<Args>(args)...)});
  }
  template <class... Args>
  void warn(DiagnosisCode code, fmt::format_string<Args...> text, Args&&... args) {
    found_.push_back(
        {code, Diagnosis::Severity::warning, fmt::format(text, std::forward<Args>(args)...)});
  }

  bool none() const { return found_.empty(); }
  void add(std::vector<Diagnosis> others) {
    std::move(others.begin(), others.end(), std::back_inserter(found_));
  }
  std::vector<Diagnosis> all() { return std::move(found_); }

 private:
  std::vector<Diagnosis> found_;
};

}  // namespace triplepoint::spec
