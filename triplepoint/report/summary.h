// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/report/study.h"

namespace triplepoint::report {

/// How many jobs came to what.
struct Summary {
  std::size_t jobs = 0, ok = 0, oom = 0, invalid = 0;
};
Summary summary_of(const Study& study);

/// What results.json says of a study besides its jobs: `summary`, `findings`, `groups` with their
/// recommendations. Every number in a sentence names the keys that it was made from.
Json conclusions_json(const Study& study);

}  // namespace triplepoint::report
