// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/machine_names.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace triplepoint::spec {
namespace {

struct Named {
  std::string_view part, name;
};

// Longer names first: a GB200 is no B200.
constexpr std::array gpus = {
    Named{"gb300", "gb300"},      Named{"gb200", "gb200"},      Named{"gh200", "h200"},
    Named{"b300", "b300"},        Named{"b200", "b200"},        Named{"h800", "h800"},
    Named{"h200nvl", "h200-nvl"}, Named{"h200", "h200"},        Named{"h10096gb", "h100-96gb"},
    Named{"h100", "h100"},        Named{"a10080", "a100-80gb"}, Named{"a100", "a100-80gb"},
    Named{"mi355", "mi355x"},     Named{"mi350", "mi350x"},     Named{"mi325", "mi325x"},
    Named{"mi300", "mi300x"},     Named{"mi250x", "mi250x"},    Named{"mi250", "mi250"},
    Named{"mi210", "mi250"},  // the same die, one to a package
    Named{"a800", "a100-80gb"},   Named{"v100", "v100-32gb"}};

// The machine most often built around each GPU.
constexpr std::array clusters = {
    Named{"a100-40gb", "dgx-a100-40gb"}, Named{"a100-80gb", "dgx-a100"},
    Named{"h100", "dgx-h100"},           Named{"h100-96gb", "hgx-h100-96gb"},
    Named{"h200", "dgx-h200"},           Named{"h200-nvl", "h200-nvl"},
    Named{"h800", "hgx-h800"},           Named{"b200", "dgx-b200"},
    Named{"b300", "dgx-b300"},           Named{"gb200", "gb200-nvl72"},
    Named{"gb300", "gb300-nvl72"},       Named{"mi250", "mi250"},
    Named{"mi250x", "frontier"},         Named{"mi300x", "mi300x"},
    Named{"mi325x", "mi325x"},           Named{"mi350x", "mi350x"},
    Named{"mi355x", "mi355x"},           Named{"v100-32gb", "jean-zay-v100"}};

std::string letters_and_digits(std::string_view text) {
  std::string plain;
  for (const unsigned char c : text)
    if (std::isalnum(c) != 0) plain += static_cast<char>(std::tolower(c));
  return plain;
}

}  // namespace

std::optional<std::string> gpu_named(std::string_view spelling) {
  const std::string plain = letters_and_digits(spelling);
  for (const Named& gpu : gpus) {
    if (plain.find(gpu.part) == std::string::npos) continue;
    const bool small = gpu.name == "a100-80gb" && plain.find("40gb") != std::string::npos;
    return std::string(small ? "a100-40gb" : gpu.name);
  }
  return std::nullopt;
}

std::optional<std::string> usual_cluster(std::string_view gpu) {
  const auto* const found = std::find_if(clusters.begin(), clusters.end(),
                                         [&](const Named& named) { return named.part == gpu; });
  if (found == clusters.end()) return std::nullopt;
  return std::string(found->name);
}

}  // namespace triplepoint::spec
