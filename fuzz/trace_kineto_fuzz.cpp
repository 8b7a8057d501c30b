// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string>

#include "triplepoint/base/result.h"

#include "triplepoint/trace/input.h"
#include "triplepoint/trace/kineto/kineto.h"

namespace {

using namespace triplepoint;

Result<trace::Trace> read(const std::string& text, size_t step) {
  trace::Input input = trace::Input::of_text(text, "fuzz");
  input.read_in_steps_of(step);
  return trace::read_kineto(input, {});
}

}  // namespace

/// Whatever is read is a sound timeline, and the same however the text is cut into pieces.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto whole = read(text, 1 << 20), pieces = read(text, 1 + data[0]);
  TPT_ENSURE(whole.has_value() == pieces.has_value());
  if (!whole) return 0;
  TPT_ENSURE(!run::find_fault(whole->timeline));
  TPT_ENSURE(*whole == *pieces);
  return 0;
}
