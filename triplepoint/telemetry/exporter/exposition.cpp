// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/exporter/exposition.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "triplepoint/base/text.h"

namespace triplepoint::telemetry {
namespace {

struct Named {
  std::string_view signal, name, help;  // name without prefix, unit's suffix and _total
  std::string_view label = {}, label_value = {};
};

/// Of a GPU and of the node: the words that differ from the signal's own.
constexpr std::array named = {
    Named{"power_instant_w", "power_instant", "Power at the moment, as the sensor shows it"},
    Named{"power_average_w", "power_average", "Power, smoothed over about a second"},
    Named{"memory_power_w", "memory_power", "Power of the memory"},
    Named{"energy_j", "energy", "Energy since the exporter began, by the hardware's counter"},
    Named{"die_c", "temperature", "Temperature of the GPU, as its driver reports it"},
    Named{"junction_c", "junction_temperature", "Temperature of the hottest spot"},
    Named{"edge_c", "edge_temperature", "Temperature at the edge of the die"},
    Named{"memory_c", "memory_temperature", "Temperature of the memory"},
    Named{"sm_clock_mhz", "sm_clock", "Clock of the multiprocessors"},
    Named{"memory_clock_mhz", "memory_clock", "Clock of the memory"},
    Named{"throttle_reasons", "clock_event_reasons",
          "Bits of the reasons that limit the clock (nvmlClocksEventReason)"},
    Named{"utilization", "utilization", "Share of time in which a kernel was running"},
    Named{"memory_utilization", "memory_utilization", "Share of time in which memory was busy"},
    Named{"memory_used_b", "memory_used", "Memory in use"},
    Named{"power_limit_w", "power_limit", "Power limit in force"},
    Named{"fan_share", "fan", "Speed of the fan over its highest"},
    Named{"scale_up_tx_bytes", "scale_up_transmit", "Bytes out over NVLink or xGMI"},
    Named{"scale_up_rx_bytes", "scale_up_receive", "Bytes in over NVLink or xGMI"},
    Named{"pcie_tx_bytes", "pcie_transmit", "Bytes out over PCIe"},
    Named{"pcie_rx_bytes", "pcie_receive", "Bytes in over PCIe"},
    Named{"module_power_w", "module_power",
          "Power of the GPU's module, its CPU included; each GPU of a module says the same"},
    Named{"ecc_corrected_errors", "ecc_corrected_errors", "Single-bit errors, corrected"},
    Named{"ecc_uncorrected_errors", "ecc_uncorrected_errors", "Double-bit errors, not corrected"},
    Named{"remapped_rows_uncorrected", "remapped_rows_uncorrected",
          "Rows of memory replaced after uncorrected errors"},
    Named{"remapped_rows_corrected", "remapped_rows_corrected",
          "Rows of memory replaced after corrected errors"},
    Named{"remapped_rows_pending", "remapped_rows_pending",
          "Whether a row is to be replaced at the next reset"},
    Named{"remapped_rows_failed", "remapped_rows_failed", "Whether replacing a row has failed"},
    Named{"retired_pages_pending", "retired_pages_pending",
          "Whether a page is to be retired at the next reset"},
    Named{"nvlink_crc_errors", "nvlink_crc_errors", "Errors of flits on all NVLinks"},
    Named{"nvlink_replay_errors", "nvlink_replay_errors", "Replays on all NVLinks"},
    Named{"nvlink_recovery_errors", "nvlink_recovery_errors", "Recoveries of all NVLinks"},
    Named{"pcie_replays", "pcie_replays", "Replays on PCIe"},
    Named{"xid", "xid", "Last XID error; 0: none since the exporter began"},
    Named{"xid_errors", "xid_errors", "XID errors"},
    Named{"node_power_w", "power", "Power of the whole node"},
    Named{"node_energy_j", "energy", "Energy of the whole node since the exporter began"},
    Named{"inlet_c", "inlet_temperature", "Temperature of the air that goes in"},
    Named{"cpu_energy_j", "cpu_energy", "Energy of the processors' packages"},
    Named{"dram_energy_j", "dram_energy", "Energy of the memory"},
    Named{"cpu_c", "cpu_temperature", "Temperature of the hottest processor"},
    Named{"cpu_user_s", "cpu", "Time of all hardware threads, by mode", "mode", "user"},
    Named{"cpu_system_s", "cpu", "Time of all hardware threads, by mode", "mode", "system"},
    Named{"cpu_idle_s", "cpu", "Time of all hardware threads, by mode", "mode", "idle"},
    Named{"cpu_wait_s", "cpu", "Time of all hardware threads, by mode", "mode", "iowait"},
    Named{"scale_out_tx_bytes", "scale_out_transmit", "Bytes out over InfiniBand or RoCE"},
    Named{"scale_out_rx_bytes", "scale_out_receive", "Bytes in over InfiniBand or RoCE"},
    Named{"ethernet_tx_bytes", "ethernet_transmit", "Bytes out over Ethernet"},
    Named{"ethernet_rx_bytes", "ethernet_receive", "Bytes in over Ethernet"},
    Named{"sampler_cpu_s", "cpu", "Processor time that measuring has taken"},
    Named{"sampler_late_s", "late", "How late the last tick began"},
    Named{"sampler_lost_ticks", "lost_ticks", "Ticks that were not kept"},
    Named{"sampler_call_s", "call", "Time that the sensors' calls of the last tick took"},
};

struct Unit {
  std::string_view suffix, word;
  double scale;
};
constexpr std::array units = {
    Unit{"_ns", "_seconds", 1e-9}, Unit{"_bytes", "_bytes", 1}, Unit{"_mhz", "_hertz", 1e6},
    Unit{"_w", "_watts", 1},       Unit{"_c", "_celsius", 1},   Unit{"_j", "_joules", 1},
    Unit{"_b", "_bytes", 1},       Unit{"_s", "_seconds", 1},   Unit{"_v", "_volts", 1},
    Unit{"_rpm", "_rpm", 1},
};
constexpr std::array shares = {std::string_view("utilization"),
                               std::string_view("memory_utilization"),
                               std::string_view("fan_share")};

/// Letters, digits and _ only.
std::string clean(std::string_view text) {
  std::string name(text);
  std::ranges::replace_if(
      name, [](char c) { return !is_letter(c) && !is_digit(c); }, '_');
  return name;
}

/// "triplepoint_gpu_", "triplepoint_node_", "triplepoint_sampler_".
std::string prefix_of(const run::SeriesSource& about) {
  if (!about.of_node) return "triplepoint_gpu_";
  return about.signal.starts_with("sampler_") ? "triplepoint_sampler_" : "triplepoint_node_";
}

/// What its name says of its unit; whatever ends in none of them has none.
Unit unit_of(std::string_view signal) {
  for (const Unit& unit : units)
    if (signal.ends_with(unit.suffix)) return unit;
  const bool share = signal.ends_with("_share") || signal.ends_with("_active") ||
                     signal.ends_with("_occupancy") || holds(shares, signal);
  return {"", share ? "_ratio" : "", 1};
}

struct Dcgm {
  std::string_view signal, name, help;
  double scale;
};
constexpr std::array dcgm = {
    Dcgm{"power_average_w", "DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", 1},
    Dcgm{"power_instant_w", "DCGM_FI_DEV_POWER_USAGE_INSTANT", "Current power draw (in W).", 1},
    Dcgm{"energy_j", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
         "Total energy consumption since the exporter began (in mJ).", 1e3},
    Dcgm{"die_c", "DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", 1},
    Dcgm{"memory_c", "DCGM_FI_DEV_MEMORY_TEMP", "Memory temperature (in C).", 1},
    Dcgm{"sm_clock_mhz", "DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz).", 1},
    Dcgm{"memory_clock_mhz", "DCGM_FI_DEV_MEM_CLOCK", "Memory clock frequency (in MHz).", 1},
    Dcgm{"utilization", "DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", 100},
    Dcgm{"memory_utilization", "DCGM_FI_DEV_MEM_COPY_UTIL", "Memory utilization (in %).", 100},
    Dcgm{"memory_used_b", "DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).",
         1.0 / 1048576},
    Dcgm{"power_limit_w", "DCGM_FI_DEV_POWER_MGMT_LIMIT", "Current power limit (in W).", 1},
    Dcgm{"throttle_reasons", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
         "Current clock throttle reasons (bitmask).", 1},
    Dcgm{"throttle_reasons", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
         "Current clock event reasons (bitmask).", 1},
    Dcgm{"throttle_ns_sw_thermal_slowdown", "DCGM_FI_DEV_THERMAL_VIOLATION",
         "Throttling duration due to thermal constraints (in ns).", 1},
    Dcgm{"xid", "DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error encountered.", 1},
    Dcgm{"ecc_corrected_errors", "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
         "Single-bit ECC errors since the exporter began.", 1},
    Dcgm{"ecc_uncorrected_errors", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
         "Double-bit ECC errors since the exporter began.", 1},
    Dcgm{"remapped_rows_uncorrected", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
         "Remapped rows for uncorrectable errors, since the exporter began.", 1},
    Dcgm{"remapped_rows_corrected", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
         "Remapped rows for correctable errors, since the exporter began.", 1},
    Dcgm{"remapped_rows_failed", "DCGM_FI_DEV_ROW_REMAP_FAILURE",
         "Whether remapping of rows has failed.", 1},
    Dcgm{"remapped_rows_pending", "DCGM_FI_DEV_ROW_REMAP_PENDING",
         "Whether remapping of rows is pending.", 1},
    Dcgm{"pcie_replays", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
         "PCIe replays since the exporter began.", 1},
    Dcgm{"graphics_active", "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
         "Ratio of time the graphics engine is active.", 1},
    Dcgm{"sm_active", "DCGM_FI_PROF_SM_ACTIVE", "Ratio of cycles an SM has a warp.", 1},
    Dcgm{"sm_occupancy", "DCGM_FI_PROF_SM_OCCUPANCY", "Ratio of warps resident on an SM.", 1},
    Dcgm{"tensor_active", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
         "Ratio of cycles the tensor pipe is active.", 1},
    Dcgm{"memory_active", "DCGM_FI_PROF_DRAM_ACTIVE",
         "Ratio of cycles the memory interface is active.", 1},
    Dcgm{"throttle_ns_sw_power_cap", "DCGM_FI_DEV_POWER_VIOLATION",
         "Throttling duration due to power constraints (in ns).", 1},
    Dcgm{"throttle_ns_sync_boost", "DCGM_FI_DEV_SYNC_BOOST_VIOLATION",
         "Throttling duration due to sync-boost constraints (in ns).", 1},
};

/// Instant and smoothed values are told apart; what a counter is its name says.
std::string with_kind(std::string help, const run::SeriesSource& about) {
  if (about.kind == run::ReadingKind::average) help += " (averaged by the sensor)";
  return help + ".";
}

/// What a metric does not say of itself, its signal does.
run::ReadingKind usual_kind(std::string_view signal) {
  const auto ends = [&](auto... words) { return (signal.ends_with(words) || ...); };
  if (signal.starts_with("throttle_ns_") ||
      ends("energy_j", "_errors", "_replays", "rows_corrected", "rows_uncorrected", "_bytes"))
    return run::ReadingKind::counter;
  if (signal == "throttle_reasons") return run::ReadingKind::bits;
  return ends("utilization", "_active", "_occupancy", "average_w") ? run::ReadingKind::average
                                                                   : run::ReadingKind::instant;
}

bool is_label(std::string_view name) {
  return !name.empty() && !is_digit(name.front()) && !name.starts_with("__") && clean(name) == name;
}

Result<std::pair<std::string, std::string>> parse_label(std::string_view text) {
  const std::size_t equal = text.find('=');
  if (equal == std::string_view::npos)
    return error("\"{}\" is no label of a job (there is no = in it); write job=4711,user=ann",
                 text);
  const std::string_view name = text.substr(0, equal);
  if (!is_label(name) || name == "host" || name == "gpu")
    return error(
        "\"{}\" cannot be a label (letters, digits and _ can, host and gpu are taken); "
        "try job, user, rank",
        name);
  // A scrape has these two itself, and would rename ours.
  const bool is_scrapes = name == "job" || name == "instance";
  return std::pair(
      is_scrapes ? "job_" + std::string(name == "job" ? "id" : name) : std::string(name),
      std::string(text.substr(equal + 1)));
}

}  // namespace

MetricName metric_of(const run::SeriesSource& about) {
  MetricName metric;
  metric.counter = about.kind == run::ReadingKind::counter;
  const std::string reason = reason_of_residency(about.signal);
  if (!reason.empty())
    return {.name = prefix_of(about) + "throttle_seconds_total",
            .help = "Time with the clock held back, by reason.",
            .counter = true,
            .scale = 1e-9,
            .label = "reason",
            .label_value = reason};
  const Unit unit = unit_of(about.signal);
  std::string_view bare = about.signal;
  if (about.of_node && bare.starts_with("sampler_")) bare.remove_prefix(8);
  std::string word = clean(bare.substr(0, bare.size() - unit.suffix.size()));
  metric.help = fmt::format("Signal {} of {}", about.signal, about.sensor);
  for (const Named& one : named) {
    if (one.signal != about.signal) continue;
    word = one.name;
    metric.help = one.help;
    metric.label = one.label;
    metric.label_value = one.label_value;
  }
  metric.name = prefix_of(about) + word + std::string(unit.word) + (metric.counter ? "_total" : "");
  metric.help = with_kind(std::move(metric.help), about);
  metric.scale = unit.scale;
  return metric;
}

std::vector<MetricName> dcgm_metrics_of(const run::SeriesSource& about) {
  std::vector<MetricName> metrics;
  for (const Dcgm& one : dcgm)
    if (one.signal == about.signal && !about.of_node)
      metrics.push_back({.name = std::string(one.name),
                         .help = std::string(one.help),
                         .counter = about.kind == run::ReadingKind::counter,
                         .scale = one.scale});
  return metrics;
}

std::optional<MetricMeaning> signal_of_metric(std::string_view name) {
  for (const Dcgm& one : dcgm)
    if (one.name == name)
      return MetricMeaning{
          .signal = one.signal, .unit = 1 / one.scale, .kind = usual_kind(one.signal)};
  if (!name.starts_with("triplepoint_")) return std::nullopt;
  for (const Named& one : named)
    for (const auto kind : {run::ReadingKind::instant, run::ReadingKind::counter}) {
      const bool of_node = name.starts_with("triplepoint_node_");
      const MetricName metric =
          metric_of({.signal = std::string(one.signal), .of_node = of_node, .kind = kind});
      if (metric.name == name && metric.label.empty())
        return MetricMeaning{one.signal, 1 / metric.scale, usual_kind(one.signal), of_node};
    }
  return std::nullopt;
}

JobLabels job_of_environment(const Variable& variable) {
  const LaunchEnvironment launch = read_launch_environment(variable);
  JobLabels labels;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) labels.emplace_back(name, value);
  };
  const auto add_number = [&](const char* name, const std::optional<int32_t>& value) {
    if (value) labels.emplace_back(name, fmt::format("{}", *value));
  };
  add("job_id", launch.job);
  add("launcher", launch.launcher);
  add_number("rank", launch.rank);
  add_number("local_rank", launch.local_rank);
  add_number("world_size", launch.world_size);
  if (const auto gpus = variable("SLURM_STEP_GPUS"); gpus && !gpus->empty())
    add("gpus", *gpus);
  else
    add("gpus", variable("SLURM_JOB_GPUS").value_or(""));
  constexpr std::array slurm = {
      std::pair("name", "SLURM_JOB_NAME"), std::pair("user", "SLURM_JOB_USER"),
      std::pair("account", "SLURM_JOB_ACCOUNT"), std::pair("partition", "SLURM_JOB_PARTITION")};
  for (const auto& [name, source] : slurm)
    add(name, variable(source).value_or(""));
  return labels;
}

Result<JobLabels> parse_job(std::string_view text) {
  JobLabels labels;
  for (const std::string& part : split(text, ',')) {
    auto label = TPT_TRY(parse_label(trimmed(part)));
    if (holds(labels, label.first, &std::pair<std::string, std::string>::first))
      return error("the label {} is given twice (a series has each once); leave one out",
                   label.first);
    labels.push_back(std::move(label));
  }
  return labels;
}

Result<std::vector<JobLabels>> read_job_file(const Path& path) {
  if (!path_exists(path)) return std::vector<JobLabels>();
  const std::string text = TPT_TRY(read_file(path));
  std::vector<JobLabels> jobs;
  for (std::string_view line : lines_of(text))
    if (line = trimmed(line); !line.empty() && line.front() != '#')
      jobs.push_back(TPT_TRY(parse_job(line)));
  return jobs;
}

namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;

/// Label values may hold anything but a bare quote, backslash or line break; other control
/// characters and broken UTF-8 would make the whole page unreadable.
std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\\' || c == '"')
      safe += {'\\', c};
    else if (c == '\n')
      safe += "\\n";
    else
      safe +=
          static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f ? '?' : c;
  }
  return safe;
}

/// The families of a page: each has one HELP, one TYPE, and its series together.
class Page {
 public:
  void add(const MetricName& metric, Labels labels, double value) {
    if (!std::isfinite(value)) return;  // absent, not NaN: an alert on NaN never fires
    Family& family = families_[metric.name];
    family.help = metric.help;
    family.counter = metric.counter;
    if (!metric.label.empty()) labels.emplace_back(metric.label, metric.label_value);
    std::string text = text_of(labels);
    if (!family.seen.insert(text).second) return;  // one series has one value
    family.lines += fmt::format("{}{} {}\n", metric.name, text, value * metric.scale);
  }
  std::string text() const {
    std::string all;
    for (const auto& [name, family] : families_)
      all += fmt::format("# HELP {} {}\n# TYPE {} {}\n{}", name, family.help, name,
                         family.counter ? "counter" : "gauge", family.lines);
    return all;
  }

 private:
  struct Family {
    std::string help, lines;
    bool counter = false;
    std::set<std::string> seen;
  };
  static std::string text_of(const Labels& labels) {
    std::string text;
    for (const auto& [name, value] : labels)
      text += fmt::format("{}{}=\"{}\"", text.empty() ? "{" : ",", name, escaped(value));
    return text.empty() ? text : text + "}";
  }
  std::map<std::string, Family> families_;
};

Labels labels_of(const Snapshot& snapshot, const DeviceFacts& facts) {
  return {{"gpu", fmt::format("{}", facts.device.local)},
          {"uuid", facts.device.uuid},
          {"host", snapshot.node.host},
          {"model", facts.device.name}};
}

/// "00000000:1B:00.0" of "0000:1b:00.0".
std::string dcgm_bus_id(const std::string& pci) {
  const std::string id = upper_case(pci);
  return id.find(':') == 4 ? "0000" + id : id;
}

Labels dcgm_labels_of(const Snapshot& snapshot, const DeviceFacts& facts) {
  Labels labels = {{"gpu", fmt::format("{}", facts.device.local)},
                   {"UUID", facts.device.uuid},
                   {"pci_bus_id", dcgm_bus_id(facts.device.pci)},
                   {"device", fmt::format("{}{}", facts.vendor == "amd" ? "card" : "nvidia",
                                          facts.device.local)},
                   {"modelName", facts.device.name},
                   {"Hostname", snapshot.node.host}};
  if (!snapshot.node.nvidia_driver.empty())
    labels.emplace_back("DCGM_FI_DRIVER_VERSION", snapshot.node.nvidia_driver);
  return labels;
}

/// What DCGM has, and no reading of ours is: power of boards that only tell the moment's, and
/// memory that is free.
void add_dcgm_facts(const Snapshot& snapshot, int32_t device, const DeviceFacts& facts,
                    Page& page) {
  const Labels labels = dcgm_labels_of(snapshot, facts);
  const LiveReading* const instant = find_reading(snapshot, "power_instant_w", device);
  if (instant != nullptr && find_reading(snapshot, "power_average_w", device) == nullptr)
    for (const MetricName& metric : dcgm_metrics_of({.signal = "power_average_w"}))
      page.add(metric, labels, instant->value);
  if (!facts.memory) return;
  constexpr double mib = 1048576;
  const double total = *facts.memory / unit::B / mib;
  page.add({.name = "DCGM_FI_DEV_FB_TOTAL", .help = "Framebuffer memory (in MiB)."}, labels, total);
  if (const LiveReading* const used = find_reading(snapshot, "memory_used_b", device))
    page.add({.name = "DCGM_FI_DEV_FB_FREE",
              .help = "Framebuffer memory not in use, reserved memory included (in MiB)."},
             labels, total - used->value / mib);
}

/// Scopes overlap where it is about power; elsewhere it would only be one more label.
bool says_scope(const run::SeriesSource& about) {
  return about.signal.ends_with("_w") || about.signal.ends_with("_j");
}

void add_reading(const Snapshot& snapshot, const LiveReading& reading, bool dcgm_names,
                 Page& page) {
  const run::SeriesSource& about = reading.about;
  Labels labels = {{"host", snapshot.node.host}};
  if (!about.of_node) {
    const DeviceFacts& facts = snapshot.devices.at(as_size(about.device)).facts;
    labels = labels_of(snapshot, facts);
    if (dcgm_names && about.scope != run::Scope::module)
      for (const MetricName& metric : dcgm_metrics_of(about))
        page.add(metric, dcgm_labels_of(snapshot, facts), reading.value);
  }
  if (says_scope(about)) labels.emplace_back("scope", name_of(about.scope));
  page.add(metric_of(about), std::move(labels), reading.value);
}

void write_facts(const Snapshot& snapshot, Page& page) {
  for (const LiveDevice& device : snapshot.devices) {
    const Labels labels = labels_of(snapshot, device.facts);
    page.add({.name = "triplepoint_gpu_up", .help = "Whether the GPU answers."}, labels,
             device.answers ? 1 : 0);
    const auto add = [&](const char* name, const char* help, std::optional<double> value) {
      if (value) page.add({.name = name, .help = help}, labels, *value);
    };
    const DeviceFacts& facts = device.facts;
    add("triplepoint_gpu_memory_total_bytes", "Memory of the GPU, as the driver reports it.",
        facts.memory ? std::optional(*facts.memory / unit::B) : std::nullopt);
    add("triplepoint_gpu_slowdown_temperature_celsius", "Where the hardware slows down.",
        facts.slowdown ? std::optional(facts.slowdown->degrees()) : std::nullopt);
  }
}

/// Numbers of the GPUs that a job says it has: "0-3", "0+2"; nothing where it says none.
std::optional<std::vector<int32_t>> gpus_of(const JobLabels& job) {
  const auto found = std::ranges::find(job, "gpus", &std::pair<std::string, std::string>::first);
  if (found == job.end()) return std::nullopt;
  std::vector<int32_t> gpus;
  std::string text = found->second;
  std::ranges::replace(text, ',', '+');
  for (const std::string& part : split(text, '+')) {
    const std::size_t dash = std::min(part.find('-'), part.size());
    const auto first = whole_number(part.substr(0, dash));
    const auto last = dash < part.size() ? whole_number(part.substr(dash + 1)) : first;
    constexpr int64_t most = 1024;
    for (int64_t gpu = first.value_or(1); last && gpu <= std::min(*last, most); ++gpu)
      gpus.push_back(static_cast<int32_t>(gpu));
  }
  return gpus;
}

/// A series for each GPU that a job has to itself, so that a join gives each its own: of a node
/// with one job that names none all of them. What jobs share belongs to neither: a series without a
/// GPU.
void add_jobs(const Snapshot& snapshot, const std::vector<JobLabels>& jobs, Page& page) {
  std::map<int32_t, std::vector<std::size_t>> owners;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto own = gpus_of(jobs[i]);
    for (const LiveDevice& device : snapshot.devices) {
      const int32_t gpu = device.facts.device.local;
      if (own ? std::ranges::find(*own, gpu) != own->end() : jobs.size() == 1)
        owners[gpu].push_back(i);
    }
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const MetricName info = {
        .name = "triplepoint_job_info",
        .help =
            "A job on this host, and a GPU that it has to itself; join on both, as in power * "
            "on(host,gpu) group_left(job_id) triplepoint_job_info."};
    Labels labels = {{"host", snapshot.node.host}};
    labels.insert(labels.end(), jobs[i].begin(), jobs[i].end());
    bool any = false;
    for (const auto& [gpu, whose] : owners) {
      if (whose != std::vector<std::size_t>{i}) continue;
      Labels of_gpu = labels;
      of_gpu.emplace_back("gpu", fmt::format("{}", gpu));
      page.add(info, std::move(of_gpu), 1);
      any = true;
    }
    if (!any) page.add(info, std::move(labels), 1);
  }
}

/// Metrics of the process have the names and labels that Prometheus' client libraries give them.
void add_own_cost(const std::string& host, const OwnCost& cost, const ExpositionOptions& options,
                  Page& page) {
  const Labels of_host = {{"host", host}};
  page.add({.name = "triplepoint_build_info", .help = "The program that exports."},
           {{"host", host}, {"version", options.version}}, 1);
  page.add({.name = "process_cpu_seconds_total",
            .help = "Processor time of the exporter.",
            .counter = true},
           {}, cost.process_cpu_s);
  if (cost.resident_b)
    page.add({.name = "process_resident_memory_bytes", .help = "Memory of the exporter."}, {},
             *cost.resident_b);
  const auto count = [&](const char* name, const char* help, double value) {
    page.add({.name = name, .help = help, .counter = true}, of_host, value);
  };
  count("triplepoint_exporter_scrapes_total", "Pages given out.", as_real(cost.scrapes));
  count("triplepoint_sampler_ticks_total", "Ticks that were kept.", as_real(cost.sampler.ticks));
  page.add({.name = "triplepoint_sampler_longest_call_seconds",
            .help = "Longest that one sensor took in one tick."},
           of_host, cost.sampler.longest_call_s);
}

}  // namespace

std::string exposition(const Snapshot& snapshot, const std::vector<JobLabels>& jobs,
                       const OwnCost& cost, const ExpositionOptions& options) {
  Page page;
  for (const LiveReading& reading : snapshot.readings)
    add_reading(snapshot, reading, options.dcgm_names, page);
  if (options.dcgm_names)
    for (std::size_t i = 0; i < snapshot.devices.size(); ++i)
      if (snapshot.devices[i].answers)
        add_dcgm_facts(snapshot, static_cast<int32_t>(i), snapshot.devices[i].facts, page);
  write_facts(snapshot, page);
  add_jobs(snapshot, jobs, page);
  add_own_cost(snapshot.node.host, cost, options, page);
  return page.text();
}

}  // namespace triplepoint::telemetry
