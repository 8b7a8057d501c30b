// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/machine_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <regex>

#include <fmt/format.h>

#include "triplepoint/spec/job.h"

namespace triplepoint::calibrate {
namespace {

constexpr std::size_t longest_note = 200;  // a cell, not a book

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

std::optional<double> matched(const std::string& text, const char* pattern) {
  std::smatch found;
  if (!std::regex_search(text, found, std::regex(pattern))) return std::nullopt;
  double product = 1;
  for (std::size_t i = 1; i < found.size(); ++i)
    product *= std::stod(found[i].str());
  return product;
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

Result<spec::Cluster> usual_machine(const spec::Library& library, std::string_view spelling,
                                    int64_t gpus) {
  const auto gpu = gpu_named(spelling);
  const auto name = gpu ? usual_cluster(*gpu) : std::nullopt;
  if (!name)
    return error(
        fmt::format("no GPU is called \"{}\" (its numbers are not in the library); try a "
                    "name of `triplepoint list gpus`",
                    spelling));
  spec::Cluster cluster = TPT_TRY(spec::load_cluster(library, *name));
  int64_t devices = std::min(cluster.gpus_per_node, gpus);
  while (gpus % devices != 0)
    --devices;
  spec::use_devices(cluster, devices);
  cluster.num_nodes = gpus / devices;
  return cluster;
}

std::optional<BytesPerSecond> node_bandwidth_in(std::string_view note, int64_t gpus_per_node) {
  const std::string text(note.substr(0, longest_note));
  // Gb, not GB: the latter is what NVLink is sold by.
  constexpr const char* per_gpu = R"((\d{1,5}) ?Gb(?:ps|/s)[A-Za-z ]{0,20}per GPU)";
  constexpr std::array per_node = {
      R"((\d{1,2}) ?x ?(?:EDR|HDR|NDR|XDR) ?(\d{3}))",
      R"((\d{1,2}) ?[x*] ?(?:[A-Za-z-]{1,12} )?(\d{2,4}) ?Gb(?:ps|/s|it))",
      R"((\d{1,2}) ?[x*] ?(\d{2,4}) ?Gb? (?:RoCE|IB|InfiniBand|Ethernet|Omni|NIC))",
      R"((\d{2,4}) ?Gb(?:ps|/s|it/s) ?x ?(\d{1,2}))",
      R"((\d{2,5}) ?Gb(?:ps|/s|it/s))",
  };
  const BytesPerSecond one = 1e9 / 8 * unit::B / unit::s;
  if (const auto gbps = matched(text, per_gpu))
    return *gbps * static_cast<double>(gpus_per_node) * one;
  for (const char* pattern : per_node) {
    if (const auto gbps = matched(text, pattern)) return *gbps * one;
  }
  return std::nullopt;
}

}  // namespace triplepoint::calibrate
