// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/run/run.h"

#include "triplepoint/answers/quantities.h"
#include "triplepoint/metrics/metrics.h"

namespace triplepoint::answers {

/// One run as the object that `--format json` prints: the quantities that are given. What the run
/// does not know is null; a job that does not fit says so and shows its memory, nothing else.
Json results_json(const run::Run&, const metrics::Metrics&, const run::Run* fault_free = nullptr);

/// One run as one row of results.csv: numbers in their shortest exact form, empty where unknown.
/// Every row has the same columns.
std::vector<const Quantity*> results_columns();
std::vector<std::string> results_row(const run::Run&, const metrics::Metrics&);

/// What the job was told: model, sizes, conditions, as name and text; what is not known is left
/// out.
std::vector<std::pair<std::string, std::string>> settings_of(const run::Run&);

/// "number": the word of JSON Schema; empty for lists and objects.
std::string_view json_type(Type);
/// Label and documentation.
std::string sentence_of(const Quantity&);

/// JSON Schema of the object of a run, with "x-unit" and "x-column" (its name in results.csv).
Json results_schema();

}  // namespace triplepoint::answers
