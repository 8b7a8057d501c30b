// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"

namespace triplepoint::run {

/// One SQLite file: plain tables for manifest, devices, steps, summaries, memory; zstd-compressed
/// columnar chunks for spans and series (delta coding; n, min, max, sum in the chunk row). What
/// comes back equals what went in, bit for bit. Format: docs/run-format.md. Errors: unreadable, not
/// a run, truncated, newer format version, disk full, read-only; never a crash on any bytes.
Result<Run> load(const std::string& path);

/// Atomically: a temporary file beside it, then renamed.
Result<bool> save(const Run&, const std::string& path);

/// Everything but timeline and series, before any chunk of theirs is decoded.
Result<Run> peek(const std::string& path);
/// What was run, and how; nothing else is read.
Result<Manifest> load_manifest(const std::string& path);

/// A run file in memory; `name` is used in messages.
Result<std::string> to_bytes(const Run&);
Result<Run> from_bytes(std::string_view bytes, const std::string& name);

}  // namespace triplepoint::run
