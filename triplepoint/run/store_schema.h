// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/run/store_database.h"

namespace triplepoint::run {

/// Marks a SQLite file as a run: "TPnt". Written into the file's header, where `file` finds it.
inline constexpr int application_id = 0x54506E74;

/// Of the format. A reader takes this version and older ones; what an older one did not know keeps
/// its default.
inline constexpr int format_version = 1;

/// Makes the tables of docs/run-format.md.
Result<bool> create_tables(Database&);

/// Whether this is a run whose version we can read; a sentence if not.
Result<bool> check_format(const Database&);

}  // namespace triplepoint::run
