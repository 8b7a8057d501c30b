// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/fault.h"

/// What reads as a fault is written as one that reads the same.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto fault = triplepoint::spec::parse_fault(text);
  if (!fault) return 0;
  const std::string written = triplepoint::spec::to_text(*fault);
  const auto again = triplepoint::spec::parse_fault(written);
  TPT_ENSURE(again.has_value());
  TPT_ENSURE(triplepoint::spec::to_text(*again) == written);
  return 0;
}
