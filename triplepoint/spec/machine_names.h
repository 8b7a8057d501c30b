// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace triplepoint::spec {

/// The library's GPU for the name that a driver gives it ("NVIDIA H100 80GB HBM3"), or nothing.
std::optional<std::string> gpu_named(std::string_view spelling);

/// The library's cluster whose nodes usually hold this GPU, or nothing.
std::optional<std::string> usual_cluster(std::string_view gpu);

}  // namespace triplepoint::spec
