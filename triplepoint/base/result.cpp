// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/result.h"

#include <cstdio>
#include <cstdlib>

namespace triplepoint {

void broken_contract(const char* kind, const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: %s: %s\n", file, line, kind, condition);
  std::abort();
}

}  // namespace triplepoint
