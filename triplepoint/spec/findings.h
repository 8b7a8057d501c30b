// SPDX-License-Identifier: Apache-2.0
#pragma once

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

  std::vector<Diagnosis> found_;
};

}  // namespace triplepoint::spec
