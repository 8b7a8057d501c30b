// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/data_table.h"
#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/text.h"
#include "triplepoint/base/units.h"

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/trace/collectives.h"
#include "triplepoint/metrics/trace/hangs.h"
#include "triplepoint/trace/trace.h"

namespace triplepoint::trace_report {

/// The words and flags of `triplepoint trace`.
struct TraceOptions {
  std::string analysis;
  std::vector<std::string> files;
  std::string format = "table";
  std::optional<std::string> show;   // names of tables, with commas
  std::optional<std::string> ranks;  // "0,2,8-15"
  std::optional<std::string> step;   // number from 1, or name
  std::optional<std::string> rules;  // name or file
  std::string align = "auto";
  std::optional<std::string> by;  // join: how time is divided
  std::optional<std::string> output;
  std::optional<int64_t> top, threads;
  std::optional<Bytes> memory;

  int64_t rows() const { return top.value_or(10); }
  /// Whether a table that is not shown unasked has to be made at all.
  bool asks_for(const std::string& table) const;
  bool compares_operators() const;  // they need more of the traces
};

/// What one side of an analysis looks at: traces, or a run, brought to one timeline.
struct TraceInput {
  run::Run run;  // its timeline has no instances, ranks and step as asked for
  std::string format;
  trace::Skipped skipped;
  std::vector<std::string> remarks;
  int32_t warp_size = 32;
  std::vector<trace::OperatorCall> operators;  // for the analysis of operators
  std::optional<metrics::ClockFit> clocks;  // of several ranks, as found before they were aligned

  const run::Timeline& timeline() const { return run.timeline; }
};

/// What a GPU can do in a data type at the clock that it ran: min(peak, bandwidth x).
struct RoofLine {
  std::string type;                // as the trace names it
  double peak = 0, bandwidth = 0;  // FLOP/s, B/s
};

/// What an analysis found.
struct TraceReport {
  std::vector<std::string> headlines;  // the answer, in sentences
  std::vector<DataTable> tables;
  std::vector<std::string> shown;    // names of the tables that are printed unless --show says
  std::vector<std::string> remarks;  // what to know when reading the tables
  std::vector<std::string> written;  // files
  std::optional<RoofLine> roof;      // of operators: of the one that computes longest
};

// One question each; trace_<question>.cpp.
Result<TraceReport> trace_breakdown(const TraceOptions&);
Result<TraceReport> trace_comm(const TraceOptions&);
Result<TraceReport> trace_stragglers(const TraceOptions&);
Result<TraceReport> trace_operators(const TraceOptions&);
Result<TraceReport> trace_critical_path(const TraceOptions&);
Result<TraceReport> trace_diff(const TraceOptions&);
Result<TraceReport> trace_merge(const TraceOptions&);
Result<TraceReport> trace_join(const TraceOptions&);

/// Columns of scale 0 hold ns: they get the unit of the longest time, which their titles name.
DataTable in_one_unit(DataTable);

/// The tables that are shown: those the analysis shows unasked, or those of --show.
Result<std::vector<const DataTable*>> chosen_tables(const TraceReport&, const TraceOptions&);
Json report_json(const TraceReport&, const TraceOptions&);

/// A row for each group in which ranks wait.
DataTable hang_table(const run::Timeline&, const metrics::HangReport&);

}  // namespace triplepoint::trace_report
