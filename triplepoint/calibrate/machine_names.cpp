// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/machine_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <regex>

#include <fmt/format.h>

#include "triplepoint/calibrate/kernel_rows.h"

namespace triplepoint::calibrate {
namespace {

constexpr std::size_t longest_note = 200;  // a cell, not a book

struct Home {
  std::string_view gpu, cluster;
};

// The machine most often built around each GPU.
constexpr std::array homes = {
    Home{"a100-40gb", "dgx-a100-40gb"}, Home{"a100-80gb", "dgx-a100"},
    Home{"h100", "dgx-h100"},           Home{"h100-96gb", "hgx-h100-96gb"},
    Home{"h200", "dgx-h200"},           Home{"h200-nvl", "h200-nvl"},
    Home{"h800", "hgx-h800"},           Home{"b200", "dgx-b200"},
    Home{"b300", "dgx-b300"},           Home{"gb200", "gb200-nvl72"},
    Home{"gb300", "gb300-nvl72"},       Home{"mi250", "mi250"},
    Home{"mi250x", "frontier"},         Home{"mi300x", "mi300x"},
    Home{"mi325x", "mi325x"},           Home{"mi350x", "mi350x"},
    Home{"mi355x", "mi355x"},           Home{"v100-32gb", "jean-zay-v100"},
};

/// Other nodes with such GPUs, by the words of a note that names them.
struct Named {
  const char* words;
  std::string_view gpu, cluster;
};
constexpr std::array named_nodes = {
    Named{R"(Jean.?Zay|Omni.?Path|\bOPA\b)", "a100-80gb", "jean-zay-a100"},
    Named{R"(\bEFA\b|\bAWS\b|\bp4de?\.24)", "a100-40gb", "aws-p4d"},
    Named{R"(\bEFA\b|\bAWS\b|\bp5\.48)", "h100", "aws-p5"},
    Named{R"(\bEFA\b|\bAWS\b|\bp5en\.48)", "h200", "aws-p5en"},
};

/// Boards whose own names say more than the chip's.
std::optional<std::string> board_named(std::string_view spelling) {
  struct Board {
    const char *pattern, *gpu;
  };
  static constexpr std::array boards = {
      Board{"h100.*(96 ?gb|hbm2)", "h100-96gb"},
      Board{"h200[- _]*nvl", "h200-nvl"},
      Board{"mi350", "mi350x"},
      Board{"v100", "v100-32gb"},
  };
  const std::string text(spelling);
  for (const Board& board : boards) {
    if (std::regex_search(text, std::regex(board.pattern, std::regex::icase))) return board.gpu;
  }
  return gpu_named(spelling);
}

std::optional<double> matched(const std::string& text, const char* pattern) {
  std::smatch found;
  if (!std::regex_search(text, found, std::regex(pattern))) return std::nullopt;
  double product = 1;
  for (std::size_t i = 1; i < found.size(); ++i)
    product *= std::stod(found[i].str());
  return product;
}

/// The largest number of devices a node of this kind can lend so that whole nodes add up.
int64_t devices_per_node(int64_t per_node, int64_t gpus) {
  int64_t devices = std::min(per_node, gpus);
  while (gpus % devices != 0)
    --devices;
  return devices;
}

}  // namespace

std::optional<std::string> cluster_with(std::string_view gpu_spelling, std::string_view note) {
  const std::optional<std::string> gpu = board_named(gpu_spelling);
  if (!gpu) return std::nullopt;
  const std::string words(note.substr(0, longest_note));
  for (const Named& node : named_nodes) {
    if (node.gpu != *gpu) continue;
    if (std::regex_search(words, std::regex(node.words, std::regex::icase)))
      return std::string(node.cluster);
  }
  const auto is_its = [&](const Home& home) { return home.gpu == *gpu; };
  const auto* const home = std::find_if(homes.begin(), homes.end(), is_its);
  if (home == homes.end()) return std::nullopt;
  return std::string(home->cluster);
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

spec::Cluster part_of_node(spec::Cluster cluster, int64_t gpus) {
  const auto keep = static_cast<std::size_t>(gpus);
  const auto cut = [&](spec::Chassis& chassis) {
    if (chassis.seats.size() > keep) chassis.seats.resize(keep);
    for (spec::Seat& seat : chassis.seats)
      if (seat.breathes.size() > keep) seat.breathes.resize(keep);
  };
  cut(cluster.chassis);
  if (cluster.liquid_chassis) cut(*cluster.liquid_chassis);
  const bool of_one_node = cluster.scale_up.domain_size == cluster.gpus_per_node;
  cluster.gpus_per_node = gpus;
  if (of_one_node) cluster.scale_up.domain_size = gpus;
  return cluster;
}

Result<MachineChoice> machine_of(const spec::Library& library, std::string_view gpu,
                                 std::string_view note, int64_t gpus) {
  const std::optional<std::string> name = cluster_with(gpu, note);
  if (!name)
    return error(
        fmt::format("no GPU is called \"{}\" (its numbers are not in the library); try a "
                    "name of `triplepoint list gpus`",
                    gpu));
  if (gpus < 1) return error("no number of GPUs is given (a job runs on at least one)");
  MachineChoice choice;
  choice.cluster = TPT_TRY(spec::load_cluster(library, *name));
  choice.assumptions.push_back("machine " + *name);
  const int64_t devices = devices_per_node(choice.cluster.gpus_per_node, gpus);
  if (devices < choice.cluster.gpus_per_node)
    choice.cluster = part_of_node(std::move(choice.cluster), devices);
  choice.cluster.num_nodes = gpus / devices;
  if (const auto bandwidth = node_bandwidth_in(note, choice.cluster.gpus_per_node))
    choice.cluster.scale_out.nic_bandwidth =
        *bandwidth / static_cast<double>(choice.cluster.scale_out.nics_per_node);
  return choice;
}

}  // namespace triplepoint::calibrate
