// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "triplepoint/trace/input.h"

namespace triplepoint::trace {

enum class Packing : uint8_t { none, gzip, zstd };

/// By the first bytes of a file.
Packing packing_of(std::string_view head);

/// The bytes of a file. Folders and unreadable files are errors.
Result<std::unique_ptr<Source>> open_file(const Path&);
std::unique_ptr<Source> text_source(std::string text);

/// `packed`, unpacked; `name` is used in messages. A file that is cut off gives what can be had of
/// it, then an error. One that grows beyond all measure is an error (a zip bomb).
std::unique_ptr<Source> unpack(std::unique_ptr<Source> packed, Packing, const std::string& name);

/// The same bytes, read ahead by a thread of its own into a few buffers of a megabyte.
std::unique_ptr<Source> read_ahead(std::unique_ptr<Source>);

}  // namespace triplepoint::trace
