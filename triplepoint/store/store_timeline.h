// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/run/run.h"

#include "triplepoint/store/store_tables.h"

namespace triplepoint::run {

// Spans, patterns, instances and series as columns of chunks, with the plain tables that describe
// them.

Result<bool> write_timeline(const Database&, ColumnWriter&, const Timeline&);
/// More spans behind those that are there, in any order.
Result<bool> write_spans(ColumnWriter&, const std::vector<Span>&);
Result<bool> read_timeline(const Database&, ColumnReader&, Timeline&);

// Their part: lanes, communicators and details of what was traced. Runs of before have none.
Result<bool> write_timeline_details(const Database&, ColumnWriter&, const Timeline&);
Result<bool> read_timeline_details(const Database&, ColumnReader&, Timeline&);

Result<bool> write_series(const Database&, ColumnWriter&, const std::vector<Series>&,
                          Layout = Layout::of_each_device);
Result<bool> read_series(const Database&, ColumnReader&, std::vector<Series>&);

}  // namespace triplepoint::run
