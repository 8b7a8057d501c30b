// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "triplepoint/base/result.h"

namespace triplepoint::trace {

/// A pickle of plain data as JSON text. Runs nothing: of the machine's instructions only those that
/// build dictionaries, lists, tuples, numbers, texts and None are known, and PyTorch's wrappers of
/// typed lists give what they wrap. Every other instruction is an error.
///
/// Tuples become lists, keys texts. Protocols 2 to 4. Source: CPython, Lib/pickletools.py.
Result<std::string> pickle_to_json(std::string_view bytes);

/// Whether a file of these first bytes is a pickle of protocol 2 or newer.
bool looks_like_pickle(std::string_view head);

}  // namespace triplepoint::trace
