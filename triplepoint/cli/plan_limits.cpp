// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/plan_limits.h"

#include <fmt/format.h>

#include "triplepoint/base/unit_text.h"

#include "triplepoint/cli/bind.h"

namespace triplepoint::cli {

Result<void> parse_power(std::string_view text, search::Limits& limits) {
  for (const std::string& part : TPT_TRY(split_list(text))) {
    const size_t equals = part.find('=');
    const std::string scope = equals == std::string::npos ? "gpu" : part.substr(0, equals);
    const Watts power = TPT_TRY(
        parse_quantity<Watts>(equals == std::string::npos ? part : part.substr(equals + 1)));
    if (scope == "gpu")
      limits.device_power = power;
    else if (scope == "node")
      limits.node_power = power;
    else if (scope == "cluster")
      limits.total_power = power;
    else
      return error(
          fmt::format("\"{}\" is no place where power is limited; known are gpu, node, "
                      "cluster",
                      scope));
  }
  return {};
}

Result<Headroom> parse_headroom(std::string_view text) {
  if (text.empty() || text.back() != '%') return Headroom{TPT_TRY(parse_quantity<Bytes>(text)), 0};
  const int64_t percent = TPT_TRY(parse_count(text.substr(0, text.size() - 1)));
  if (percent < 0 || percent > 90)
    return error(fmt::format("{} % free is no headroom (a plan needs the rest); try 5%", percent));
  return Headroom{Bytes(), static_cast<double>(percent) / 100};
}

}  // namespace triplepoint::cli
