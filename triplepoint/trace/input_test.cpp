// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/input.h"

#include <doctest/doctest.h>

namespace triplepoint::trace {

TEST_CASE("an input of text gives the text, in pieces as asked") {
  const std::string text(3 << 20, 'x');
  Input input = Input::of_text(text, "x");
  size_t seen = 0;
  while (*input.fill()) {
    seen += input.ahead().size();
    input.skip(input.ahead().size());
  }
  CHECK(seen == text.size());
  CHECK(input.position() == text.size());
}

}  // namespace triplepoint::trace
