// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "triplepoint/base/result.h"

#include "triplepoint/trace/input.h"
#include "triplepoint/trace/trace.h"

namespace triplepoint::trace {

/// The text with the first byte cut off, handed to a reader in pieces of that many bytes.
template <class Read>
auto read_in_pieces(const std::uint8_t* data, std::size_t size, Read&& read) {
  Input input =
      Input::of_text(std::string(reinterpret_cast<const char*>(data) + 1, size - 1), "fuzz");
  input.read_in_steps_of(1 + data[0]);
  return read(input);
}

/// Whatever a reader reads is a sound timeline, and the same however the text is cut into pieces.
inline int fuzz_reader(const std::uint8_t* data, std::size_t size,
                       Result<Trace> (*read)(Input&, const ReadOptions&)) {
  if (size == 0) return 0;
  const auto pieces = read_in_pieces(data, size, [&](Input& input) { return read(input, {}); });
  Input input =
      Input::of_text(std::string(reinterpret_cast<const char*>(data) + 1, size - 1), "fuzz");
  const auto whole = read(input, {});
  TPT_ENSURE(whole.has_value() == pieces.has_value());
  if (!whole) return 0;
  TPT_ENSURE(!run::find_fault(whole->timeline));
  TPT_ENSURE(*whole == *pieces);
  return 0;
}

}  // namespace triplepoint::trace
