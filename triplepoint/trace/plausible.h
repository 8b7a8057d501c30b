// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "triplepoint/trace/trace.h"

namespace triplepoint::trace {

/// Leaves out, and counts, spans whose time stamp cannot be right:
///
///   a span of a device that begins before its own launch, by more than the trace's clocks of host
///   and device scatter (at least 1 ms), if few do
///   one that lies farther from the others than these reach a thousand times (at least a minute
///   from them, a second if its launch lies as far away, an hour if its launch lies beside it or it
///   is of the host)
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
