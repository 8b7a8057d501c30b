// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/must_testing.h"

#include "triplepoint/spec/load.h"

namespace triplepoint::spec {

/// A job of the shipped library, for tests.
inline Job job_of_text(std::string_view toml, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  return must(parse_job(default_library(), toml, "job.toml"), file, line);
}

}  // namespace triplepoint::spec
