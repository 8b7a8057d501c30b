// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/report/study.h"

namespace triplepoint::report {

/// What results.json says of a study besides its jobs: `summary`, `findings`, `groups` with their
/// recommendations. Every number in a sentence names the keys that it was made from.
Json conclusions_json(const Study& study);

}  // namespace triplepoint::report
