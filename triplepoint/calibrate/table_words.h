// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace triplepoint::calibrate {

/// Does the text contain the word? Upper and lower case are alike.
bool mentions(std::string_view text, std::string_view word);

/// The whole number after `key` in "grad_accum=4; runs=10", or nothing.
std::optional<int64_t> number_after(std::string_view text, std::string_view key);

/// The number before `unit` in "64xH100", or nothing.
std::optional<double> number_before(std::string_view text, std::string_view unit);

}  // namespace triplepoint::calibrate
