// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/run/timeline.h"

namespace triplepoint::trace {

/// As run::sort, for many spans: in time that grows with their number alone, and with less memory
/// at its height. Begins must not be negative.
void sort_spans(run::Timeline&);

}  // namespace triplepoint::trace
