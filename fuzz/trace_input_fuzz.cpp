// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "triplepoint/base/result.h"

#include "triplepoint/trace/input.h"
#include "triplepoint/trace/tar.h"

namespace {

using namespace triplepoint;

/// How many bytes there are; nothing if an error ends them. How many come before an error depends
/// on how many were asked for.
std::optional<uint64_t> drain(trace::Input& input) {
  for (;;) {
    const auto more = input.fill();
    if (!more) return std::nullopt;
    input.skip(input.ahead().size());
    if (!*more || input.position() > (64 << 20)) return input.position();
  }
}

}  // namespace

/// Packed files and tars, sound or not, end: in their bytes or in a sentence.
extern "C" int fuzz_trace_input(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto open = [&] { return trace::Input::of(trace::text_source(bytes), "fuzz"); };
  auto once = open(), again = open();
  TPT_ENSURE(once && again);
  again->read_in_steps_of(7);
  TPT_ENSURE(drain(*once) == drain(*again));

  auto archive = open();
  trace::Tar tar(*archive);
  for (int files = 0; files < 1000; ++files) {
    const auto entry = tar.next();
    if (!entry || !*entry) break;
    auto inside = trace::Input::of(tar.contents(), (*entry)->name);
    if (inside) drain(*inside);
  }
  return 0;
}
