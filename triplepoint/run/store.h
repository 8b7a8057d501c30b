// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"

namespace triplepoint::run {

/// One SQLite file: plain tables for manifest, devices, steps, summaries, memory; zstd-compressed
/// columnar chunks for spans and series (delta coding; n, min, max, sum in the chunk row). Format:
/// docs/formats.md. Errors: unreadable, not a run, newer format version, disk full, read-only;
/// never a crash on any bytes.
Result<Run> load(const std::string& path);
Result<bool> save(const Run&,
                  const std::string& path);  // atomically: temp file beside it, then rename

}  // namespace triplepoint::run
