// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/run/run.h"
#include "triplepoint/run/timeline.h"

namespace triplepoint::trace {

/// What a reader could not use. A trace with skipped events is still exact for the others.
struct Skipped {
  int64_t events = 0;
  std::vector<std::string> reasons;  // the first few, as sentences
  std::vector<std::string> notes;  // the first few, of what else the reader of a table should know
  bool truncated = false;          // the file ends before its end: a killed job, a full disk
  friend bool operator==(const Skipped&, const Skipped&) = default;
};
/// Keep the first few distinct sentences: of what was done otherwise, and of events left out, which
/// are counted.
void note_reason(Skipped&, std::string note);
void note_skipped(Skipped&, std::string reason);

/// A call of an operator, as a profiler that records shapes knows it. Lists are JSON.
struct OperatorCall {
  int32_t lane = -1;                      // as in the timeline
  int64_t begin = 0;                      // ns, as its span's
  std::string name, dims, types, values;  // of arguments: [[8, 4], []], ["float", ""], ["", "1"]
  int64_t sequence = -1;                  // of autograd; that of a backward call is its forward's
  friend bool operator==(const OperatorCall&, const OperatorCall&) = default;
};

/// What a profiler's file says.
struct Trace {
  run::Timeline timeline;
  Skipped skipped;
  std::string format;                        // "kineto", "chakra", ...
  std::optional<int32_t> rank;               // of all spans, if the file says it
  std::optional<int64_t> epoch_unix_ns;      // Unix time of Instant 0
  int64_t epoch_in_file_ns = 0;              // Instant 0 on the file's own clock
  run::ProducerNumbers numbers;              // that the file states: of ranks, GPUs, steps
  std::map<std::string, std::string> facts;  // device names, versions, ...
  std::vector<OperatorCall> operators;       // with ReadOptions::shapes
  friend bool operator==(const Trace&, const Trace&) = default;
};

/// How much of the host's side to keep; each keeps what the ones before keep.
enum class HostSpans : uint8_t {
  none,      // device spans and steps only
  launches,  // calls of the runtime (cudaLaunchKernel ...)
  ops,       // operators and annotations
  all        // Python functions too: most of a trace with stacks
};

struct ReadOptions {
  std::optional<int32_t> rank;             // else from the file
  std::string rank_pattern;                // of names: "trace_{rank}.json"; see rank_by_pattern
  std::optional<int32_t> rank_if_unknown;  // where the file does not say; from its name
  HostSpans host = HostSpans::all;
  Bytes memory_limit;   // of what the result takes; 0: none. Host spans are given up first
  int threads = 0;      // 0: as many as there are
  bool shapes = false;  // operators with their arguments, of Kineto traces
};

}  // namespace triplepoint::trace
