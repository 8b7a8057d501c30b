// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace triplepoint {

/// Writes "file:line: kind: condition" to standard error and aborts: our own mistake, not the
/// world's.
[[noreturn]] void broken_contract(const char* kind, const char* condition, const char* file,
                                  int line);

}  // namespace triplepoint

/// What a function demands of its caller. On in all builds.
#define TPT_EXPECT(condition) \
  ((condition) ? void()       \
               : ::triplepoint::broken_contract("expected", #condition, __FILE__, __LINE__))

/// What a function promises to its caller. On in all builds.
#define TPT_ENSURE(condition) \
  ((condition) ? void()       \
               : ::triplepoint::broken_contract("promised", #condition, __FILE__, __LINE__))
