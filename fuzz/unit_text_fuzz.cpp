// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "triplepoint/base/expect.h"
#include "triplepoint/base/unit_text.h"

namespace tpt = triplepoint;

/// Whatever is read as a quantity is printed and read back as the same quantity.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)tpt::parse_quantity<tpt::Celsius>(text);
  const tpt::Result<tpt::Measured> measured = tpt::parse_measured(text);
  if (!measured) return 0;
  const std::string printed = tpt::exact_text(measured->in_base_units, measured->dim);
  TPT_ENSURE(tpt::parse_in_base_units(printed, measured->dim) == measured->in_base_units);
  return 0;
}
