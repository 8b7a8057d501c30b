// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

namespace triplepoint {

using Path = std::filesystem::path;

/// Whether there is something at the path, and whether it is a folder. A path that cannot be looked
/// at (too long, a loop of links, no permission) is not there.
bool path_exists(const Path& path);
bool is_folder(const Path& path);
/// The path from the root of the file system; the path itself where the folder we are in is gone.
Path absolute_path(const Path& path);
/// The folder by its own name, which ".", ".." and "name/" do not end with; others as they are.
Path by_own_name(const Path& folder);

/// The file has another name than all of `inputs`, links included; else an error: what is read
/// would be overwritten.
Result<void> require_other_file(const Path& output, const std::vector<std::string>& inputs);

/// The whole file, at most 1 GiB. Folders, missing and unreadable files are errors that name the
/// file and the reason.
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
