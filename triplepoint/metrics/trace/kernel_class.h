// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "triplepoint/metrics/metrics.h"

namespace triplepoint::metrics {

/// The bars of the paper's figures 3 and 10. none: host work, and spans that enclose others.
enum class KernelClass : uint8_t {
  compute,
  send_recv,
  all_gather,
  reduce_scatter,
  all_reduce,
  all_to_all,
  memory,
  other,
  none
};
inline constexpr int kernel_class_count = 9;

KernelClass classify(const run::SpanType&, run::NameKind, KernelRules);

/// Whether a device kernel runs during such a span.
inline bool is_kernel(run::SpanKind kind) {
  return kind <= run::SpanKind::other || kind == run::SpanKind::copy;
}

}  // namespace triplepoint::metrics
