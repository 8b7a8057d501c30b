// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/upstream/artifact.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>

#include "triplepoint/base/files.h"

#include "triplepoint/telemetry/upstream/imported_run.h"

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

namespace {

/// Samples of a node's metric, a file per cpu, zone or device.
using NodeFiles = std::map<std::pair<int32_t, std::string_view>, std::vector<Samples>>;

class ArtifactReader {
 public:
  explicit ArtifactReader(const Path& folder) : run_(folder, "CharLLM-PPT's sampler") {}

  Result<run::Run> read(const Path& folder) {
    for (const Path& path : csv_files(folder)) {
      if (const auto name = artifact_name(path.filename().string()))
        TPT_TRY(read_file_of(*name, path));
    }
    const int32_t per_node = gpus_per_node();
    run_.number_devices(per_node);
    add_nodes(per_node);
    say_what_is_known();
    run::Run& run = run_.finished();
    add_window(run);
    return std::move(run);
  }

 private:
  Result<void> read_file_of(const ArtifactName& name, const Path& path) {
    const ArtifactMetric& metric = *name.metric;
    if (metric.signal.empty() && metric.metric != "memory_free") {
      left_out_.insert(metric.metric);
      return {};
    }
    const std::string text = TPT_TRY(read_file(path));
    const NumberRows rows = TPT_TRY(read_rows(text, path.string(), 1));
    if (rows.columns.empty()) return {};  // nothing was sampled: the job died
    Column column = readings(rows, 0);
    run_.note_failed(metric.metric, column.failed);
    if (name.of_node)
      nodes_[{name.rank, metric.metric}].push_back(std::move(column.samples));
    else
      add_gpu(name, std::move(column.samples));
    return {};
  }

  void add_gpu(const ArtifactName& name, Samples samples) {
    const ArtifactMetric& metric = *name.metric;
    if (!seen_.insert({std::string(metric.signal), name.rank}).second) return;
    has_links_ = has_links_ || metric.signal.starts_with("scale_up");
    if (metric.wraps) {
      unwrap(samples, metric.factor);
    } else {
      for (double& value : samples.values)
        value *= metric.factor;
    }
    if (metric.metric == "gpu_power" && !samples.empty()) {
      most_readings_ = std::max(most_readings_, samples.unix_ns.size());
      begin_ = std::min(begin_, samples.unix_ns.front());
      end_ = std::max(end_, samples.unix_ns.back());
    }
    run_.add(std::move(samples), about(metric, name.rank, false));
  }

  static run::SeriesSource about(const ArtifactMetric& metric, int32_t device, bool of_node) {
    return {.signal = std::string(metric.signal),
            .device = device,
            .of_node = of_node,
            .scope = metric.scope,
            .kind = metric.kind,
            .sensor = fmt::format("CharLLM-PPT {}", metric.metric)};
  }

  /// The system's sampler runs on the rank that owns GPU 0 of each node.
  int32_t gpus_per_node() {
    std::set<int32_t> leaders;
    for (const auto& [key, files] : nodes_)
      leaders.insert(key.first);
    if (leaders.size() >= 2) return *std::next(leaders.begin()) - *leaders.begin();
    run_.note(fmt::format("{} GPUs per node are assumed: no file states their number",
                          usual_gpus_per_node));
    return usual_gpus_per_node;
  }

  void add_nodes(int32_t per_node) {
    for (auto& [key, files] : nodes_) {
      const auto& [rank, name] = key;
      const ArtifactMetric& metric = *find_metric(node_metrics(), name);
      if (metric.signal.empty()) continue;
      Samples samples =
          combined(files, metric.metric == "cpu_temp" ? Combine::maximum : Combine::sum);
      if (metric.metric == "memory_used" && !subtract_free(samples, rank)) continue;
      if (metric.kind == run::ReadingKind::counter) count_from_zero(samples);
      run_.add(std::move(samples), about(metric, rank / per_node, true));
    }
  }

  /// What it calls used is all there is; false if what is free is not known.
  bool subtract_free(Samples& samples, int32_t rank) {
    const auto free = nodes_.find({rank, "memory_free"});
    if (free == nodes_.end() || free->second.front().empty()) return false;
    Samples negative = free->second.front();
    for (double& value : negative.values)
      value = -value;
    samples = combined({std::move(samples), std::move(negative)}, Combine::sum);
    return true;
  }

  static void count_from_zero(Samples& samples) {
    const double first = samples.empty() ? 0 : samples.values.front();
    for (double& value : samples.values)
      value -= first;
  }

  void say_what_is_known() {
    if (most_readings_ == 1)
      run_.note(
          "no step is known: no GPU has more than one power reading (a step lasts from the first "
          "to the last)");
    else
      run_.note(
          std::string(one_step_note) +
          ": the artifact samples one iteration, and its scripts take the time from the first "
          "to the last power reading as the step");
    if (has_links_)
      run_.note(
          "scale_up_tx_bytes and scale_up_rx_bytes are of NVLink 0 only: the artifact's sampler "
          "asked for scope 0, which is a link");
    for (const std::string_view metric : left_out_)
      run_.note(fmt::format("{} is left out: {}", metric,
                            metric == "cpu_usage" ? "its modes are interleaved without their names"
                                                  : "the byte counters report the same"));
  }

  void add_window(run::Run& run) const {
    if (most_readings_ < 2 || end_ <= begin_) return;
    run.steps.push_back({.begin = run_.instant_of(begin_), .end = run_.instant_of(end_)});
  }

  ImportedRun run_;
  NodeFiles nodes_;
  std::set<std::pair<std::string, int32_t>> seen_;
  std::set<std::string_view> left_out_;
  bool has_links_ = false;
  std::size_t most_readings_ = 0;  // of power, of one GPU
  int64_t begin_ = std::numeric_limits<int64_t>::max(), end_ = 0;
};

}  // namespace

bool looks_like_artifact(const Path& folder) {
  if (!is_folder(folder)) return false;
  const std::vector<Path> files = csv_files(folder);
  return std::any_of(files.begin(), files.end(), [](const Path& path) {
    const auto name = artifact_name(path.filename().string());
    return name && !name->of_node;
  });
}

Result<run::Run> read_artifact(const Path& folder) {
  return ArtifactReader(folder).read(folder);
}

}  // namespace triplepoint::telemetry
