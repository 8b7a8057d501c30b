// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "triplepoint/base/expect.h"
#include "triplepoint/base/json.h"

/// Whatever is read as JSON is written as JSON.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto json = triplepoint::parse_json(text, "fuzz");
  if (json) TPT_ENSURE(triplepoint::parse_json(triplepoint::json_text(*json), "again"));
  return 0;
}
