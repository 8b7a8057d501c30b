// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "triplepoint/base/result.h"

namespace triplepoint {

/// The body of http://AUTHORITY/PATH; `where` is "host:port" or "http://host:port". At most ten
/// seconds and 64 MB. Errors: unreachable, another status than 200, no HTTP.
Result<std::string> http_get(const std::string& where, const std::string& path,
                             const std::optional<std::string>& token, const std::stop_token& stop);

}  // namespace triplepoint
