// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include <fmt/format.h>  // for all: who returns errors words them
#include <fmt/ranges.h>  // and lists what would do
#include <tl/expected.hpp>

namespace triplepoint {

/// Something the outside world got wrong: a file, a config, a device.
/// `what` reads "<problem> (<why it is one>); <what to try>".
struct Error {
  std::string what;
  friend bool operator==(const Error&, const Error&) = default;
};

/// A value, or the Error that prevented it.
template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> error(std::string what) {
  return tl::unexpected<Error>(Error{std::move(what)});
}
/// The same of a pattern and what stands in it.
template <class First, class... Rest>
tl::unexpected<Error> error(fmt::format_string<First, Rest...> pattern, First&& first,
                            Rest&&... rest) {
  return error(fmt::format(pattern, std::forward<First>(first), std::forward<Rest>(rest)...));
}

/// The value of a Result that has one; nothing for a Result<void>.
template <class T>
T take_value(Result<T>&& result) {
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

}  // namespace triplepoint

/// Unwraps a Result, or returns its Error from the enclosing function. For a Result<void>, see
/// TPT_CHECK.
#define TPT_TRY(expr)                                                                      \
  __extension__({                                                                          \
    auto triplepoint_result = (expr);                                                      \
    if (!triplepoint_result) return tl::unexpected(std::move(triplepoint_result).error()); \
    ::triplepoint::take_value(std::move(triplepoint_result));                              \
  })

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
