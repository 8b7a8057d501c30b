// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/data_folder.h"

#include <cstdlib>

#include <doctest/doctest.h>

namespace triplepoint {
namespace {

TEST_CASE("the environment says first where the data are, and is held to it") {
  const char* before = std::getenv("TRIPLEPOINT_DATA");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("TRIPLEPOINT_DATA", TPT_SOURCE_DIR, 1);
  CHECK(data_folder() == Path(TPT_SOURCE_DIR));
  ::setenv("TRIPLEPOINT_DATA", "/nowhere at all", 1);
  CHECK(data_folder().error().what.starts_with(
      "TRIPLEPOINT_DATA names /nowhere at all, which is not a folder"));
  if (before == nullptr)
    ::unsetenv("TRIPLEPOINT_DATA");
  else
    ::setenv("TRIPLEPOINT_DATA", kept.c_str(), 1);
}

}  // namespace
}  // namespace triplepoint
