// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

namespace triplepoint {

using Path = std::filesystem::path;

/// The whole file. Folders, missing and unreadable files are errors that name the file and the
/// reason.
Result<std::string> read_file(const Path& path);

/// Replaces the file at once: readers see the old content or the new, never half of it, whatever
/// happens.
///
/// Written beside the target and renamed; on any error (disk full, read-only) the old file stays
/// and nothing else is left behind.
Result<void> write_file_atomically(const Path& path, std::string_view content);

/// Makes the folder and those above it; one that exists already is fine.
Result<void> make_folder(const Path& folder);

/// The plain files in a folder and below with this extension (".toml"; "" takes all), sorted by
/// path.
Result<std::vector<Path>> list_files(const Path& folder, std::string_view extension);

}  // namespace triplepoint
