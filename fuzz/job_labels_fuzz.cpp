// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "triplepoint/base/result.h"

#include "triplepoint/telemetry/exporter/exposition.h"

/// Labels that are accepted are names Prometheus accepts.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto labels =
      triplepoint::telemetry::parse_job({reinterpret_cast<const char*>(data), size});
  if (!labels) return 0;
  for (const auto& [name, value] : *labels) {
    TPT_ENSURE(!name.empty() && name != "host" && !name.starts_with("__"));
    TPT_ENSURE(name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                      "0123456789_") == std::string::npos);
  }
  return 0;
}
