// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/must_testing.h"

#include "triplepoint/spec/load.h"

namespace triplepoint::spec {

/// A job of the shipped library, for tests.
inline Job job_of_text(std::string_view toml,
                       std::source_location at = std::source_location::current()) {
  return must(parse_job(default_library(), toml, "job.toml"), at);
}

}  // namespace triplepoint::spec
