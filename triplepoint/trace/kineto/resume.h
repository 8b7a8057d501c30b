// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace triplepoint::trace::kineto {

/// Where reading may go on behind text that cannot be read: at `offset`, which is the brace of an
/// event or the bracket that closes the list of events. Not found: nothing before `offset` is one,
/// and what is behind it needs more text to tell, unless it is the last.
struct Place {
  size_t offset = 0;
  bool found = false;
};
Place find_resume(std::string_view text, bool is_last);

/// Whether a file that ends so was written to its end.
bool ends_like_a_trace(std::string_view text);

}  // namespace triplepoint::trace::kineto
