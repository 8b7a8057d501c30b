// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/trace/trace.h"

namespace triplepoint::trace {

/// Keep the first few distinct sentences: of what was done otherwise, and of events left out, which
/// are counted.
void note_reason(Skipped&, std::string note);
void note_skipped(Skipped&, std::string reason);

}  // namespace triplepoint::trace
