// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "triplepoint/trace/trace.h"

namespace triplepoint::trace {

/// A device's span whose length is not known, as readers give it to leave_out_strays() after they
/// have counted it; its begin, if that is known.
run::Span span_without_length(std::optional<int64_t> begin, int32_t rank);

/// Leaves out, and counts, spans whose time stamp cannot be right:
///
///   one that ends before it begins
///   a kernel without length, or that begins at 0 more than 1 ms before all others or behind others
///   of its stream, where those of its name take at least 2 us
///   a span of a device that begins before its own launch, by more than the trace's clocks of host
///   and device scatter (at least 1 ms), if few do
///   one that lies farther from the others than these reach a thousand times (at least a minute
///   from them, a second if its launch lies as far away, an hour if its launch lies beside it or it
///   is of the host)
///
/// Those of a device stay as run::untimed spans, at their begin or else where the one before them
/// in the file ends on their lane. The spans are in the order of the file.
///
/// Where many kernels begin before their launches, the clocks differ: nothing is left out, and
/// said. Source of both: pytorch/pytorch#192021 (records 1e14 ns early), kineto#109.
void leave_out_strays(run::Timeline&, Skipped&);

/// Lengths that overflowed end where the next operation of the same stream begins. One did
/// where it holds all later operations of its stream and is ten times as long as all others
/// together; with `any`, wherever it runs into the next (AMD's streams run one operation at a
/// time). One that is the last of its stream, and so long, has no known length: it is left out and
/// counted. Source: AMD-AGI/TraceLens#669. The spans are sorted.
void clip_overflowing(run::Timeline&, bool any, Skipped&);

}  // namespace triplepoint::trace
