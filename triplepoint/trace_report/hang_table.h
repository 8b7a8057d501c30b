// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/data_table.h"

#include "triplepoint/metrics/trace/hangs.h"

namespace triplepoint::trace_report {

/// A row for each group in which ranks wait.
DataTable hang_table(const run::Timeline&, const metrics::HangReport&);

}  // namespace triplepoint::trace_report
