// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/upstream/artifact_metrics.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace triplepoint::telemetry {
namespace {

using run::ReadingKind;
using run::Scope;

// Of two signals for one metric the first that a device has is written. NVLink counters are in KiB.
// The blocking PCIe "throughput" calls say what the byte counters beside them say better.
constexpr std::array of_gpus = {
    ArtifactMetric{"gpu_power", "power_instant_w"},
    ArtifactMetric{"gpu_power", "power_w"},
    ArtifactMetric{"gpu_power", "power_average_w"},
    ArtifactMetric{"power", "power_instant_w"},  // its older name
    ArtifactMetric{"mem_power", "memory_power_w", 1, Scope::memory, ReadingKind::average},
    ArtifactMetric{"gpu_thermal", "die_c"},
    ArtifactMetric{"mem_thermal", "memory_c", 1, Scope::memory},
    ArtifactMetric{"sm_clock", "sm_clock_mhz"},
    ArtifactMetric{"mem_clock", "memory_clock_mhz", 1, Scope::memory},
    ArtifactMetric{"gpu_util", "utilization", 0.01, Scope::gpu, ReadingKind::average},
    ArtifactMetric{"mem_util", "memory_utilization", 0.01, Scope::memory, ReadingKind::average},
    ArtifactMetric{"pcie_tx_bytes", "pcie_tx_bytes", 1, Scope::gpu, ReadingKind::counter, true},
    ArtifactMetric{"pcie_rx_bytes", "pcie_rx_bytes", 1, Scope::gpu, ReadingKind::counter, true},
    ArtifactMetric{"nvlink_tx_throughput", "scale_up_tx_bytes", 1024, Scope::gpu,
                   ReadingKind::counter, true},
    ArtifactMetric{"nvlink_rx_throughput", "scale_up_rx_bytes", 1024, Scope::gpu,
                   ReadingKind::counter, true},
    ArtifactMetric{"pcie_tx_throughput", ""},
    ArtifactMetric{"pcie_rx_throughput", ""},
};

// cpu_usage has five counters interleaved without saying which is which; memory_used holds what
// the machine has, so that only with memory_free something follows from it.
constexpr std::array of_nodes = {
    ArtifactMetric{"cpu_idle", "cpu_idle_s", 1, Scope::host, ReadingKind::counter},
    ArtifactMetric{"cpu_iowait", "cpu_wait_s", 1, Scope::host, ReadingKind::counter},
    ArtifactMetric{"cpu_temp", "cpu_c", 1, Scope::package},
    ArtifactMetric{"memory_used", "memory_used_b", 1, Scope::host},
    ArtifactMetric{"memory_free", "", 1, Scope::host},
    ArtifactMetric{"cpu_usage", "", 1, Scope::host},
    ArtifactMetric{"ib_rx_bytes", "scale_out_rx_bytes", 1, Scope::nic, ReadingKind::counter},
    ArtifactMetric{"ib_tx_bytes", "scale_out_tx_bytes", 1, Scope::nic, ReadingKind::counter},
};

std::optional<int32_t> rank_of(std::string_view digits) {
  int32_t rank = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  const bool is_rank = problem == std::errc() && end == digits.data() + digits.size() &&
                       !digits.empty() && digits.front() != '-' && rank < most_ranks;
  return is_rank ? std::optional(rank) : std::nullopt;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

/// metric_3, or metric_rank_3_id_mlx5_0.
std::optional<ArtifactName> name_of(std::string_view stem, std::span<const ArtifactMetric> metrics,
                                    bool of_node) {
  for (const ArtifactMetric& metric : metrics) {
    std::string_view rest = stem;
    if (!take_prefix(rest, metric.metric) || !take_prefix(rest, "_")) continue;
    ArtifactName name{.metric = &metric, .of_node = of_node};
    const std::size_t id = of_node && take_prefix(rest, "rank_") ? rest.find("_id_") : rest.npos;
    if (id != rest.npos) {
      name.id = rest.substr(id + 4);
      rest = rest.substr(0, id);
    }
    const auto rank = rank_of(rest);
    if (!rank) continue;
    name.rank = *rank;
    return name;
  }
  return std::nullopt;
}

}  // namespace

std::span<const ArtifactMetric> gpu_metrics() {
  return of_gpus;
}

std::span<const ArtifactMetric> node_metrics() {
  return of_nodes;
}

const ArtifactMetric* find_metric(std::span<const ArtifactMetric> metrics,
                                  std::string_view metric) {
  const auto found =
      std::find_if(metrics.begin(), metrics.end(),
                   [&](const ArtifactMetric& candidate) { return candidate.metric == metric; });
  return found == metrics.end() ? nullptr : &*found;
}

std::optional<ArtifactName> artifact_name(std::string_view file_name) {
  if (!file_name.ends_with(".csv")) return std::nullopt;
  file_name.remove_suffix(4);
  if (take_prefix(file_name, "system_")) return name_of(file_name, of_nodes, true);
  return name_of(file_name, of_gpus, false);
}

}  // namespace triplepoint::telemetry
