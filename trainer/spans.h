// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "triplepoint/mark/mark.h"

namespace triplepoint::trainer {

/// Says which rank this thread works for: needed once by every thread that marks where ranks are
/// threads, harmless where they are processes.
inline void introduce_rank(int rank) {
  triplepoint_value("rank", rank);
}

/// Spans that the trainer reports through the markers, to a recorder if there is one. Names are
/// those of the workload's ops ("qkv", "mlp_up_dgrad", "tp_all_reduce"), static.
struct SpanText {
  const char* name;
  const char* group = nullptr;  // communication: "tp", "dp", "pp", "ep", ...
  double bytes = -1, flops = -1;
  int64_t microbatch = -1;
};

/// A span of compute or communication that lasts as long as the scope it stands in. Costs 2 ns
/// without a recorder.
class ScopedSpan {
 public:
  explicit ScopedSpan(const SpanText& text)
      : text_(text), begin_(triplepoint_marking() != 0 ? triplepoint_now() : 0) {}
  ~ScopedSpan() {
    if (begin_ != 0) emit(text_, begin_, triplepoint_now());
  }
  ScopedSpan(const ScopedSpan&) = delete;
  ScopedSpan& operator=(const ScopedSpan&) = delete;

  /// For what has run in the background.
  static void emit(const SpanText& text, int64_t begin_ns, int64_t end_ns) {
    triplepoint_mark_put_now()(triplepoint_mark_span, text.name, text.group, begin_ns, end_ns,
                               text.microbatch, text.bytes, text.flops);
  }

 private:
  SpanText text_;
  int64_t begin_;
};

}  // namespace triplepoint::trainer
