// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/exporter/exposition.h"

#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "triplepoint/telemetry/exporter/metric_names.h"

namespace triplepoint::telemetry {
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

Labels dcgm_labels_of(const Snapshot& snapshot, const DeviceFacts& facts) {
  return {{"gpu", fmt::format("{}", facts.device.local)},
          {"UUID", facts.device.uuid},
          {"pci_bus_id", facts.device.pci},
          {"device", fmt::format("nvidia{}", facts.device.local)},
          {"modelName", facts.device.name},
          {"Hostname", snapshot.node.host}};
}

/// Scopes overlap where it is about power; elsewhere it would only be one more label.
bool says_scope(const run::SeriesSource& about) {
  return about.signal.ends_with("_w") || about.signal.ends_with("_j");
}

void add_reading(const Snapshot& snapshot, const LiveReading& reading, bool dcgm, Page& page) {
  const run::SeriesSource& about = reading.about;
  Labels labels = {{"host", snapshot.node.host}};
  if (!about.of_node) {
    const DeviceFacts& facts = snapshot.devices.at(static_cast<std::size_t>(about.device)).facts;
    labels = labels_of(snapshot, facts);
    if (dcgm && about.scope == run::Scope::gpu)
      if (const auto metric = dcgm_metric_of(about))
        page.add(*metric, dcgm_labels_of(snapshot, facts), reading.value);
  }
  if (says_scope(about)) labels.emplace_back("scope", name_of(about.scope));
  page.add(metric_of(about), std::move(labels), reading.value);
}

void add_facts(const Snapshot& snapshot, Page& page) {
  for (const LiveDevice& device : snapshot.devices) {
    const Labels labels = labels_of(snapshot, device.facts);
    page.add({.name = "triplepoint_gpu_up", .help = "Whether the GPU answers."}, labels,
             device.answers ? 1 : 0);
    const auto add = [&](const char* name, const char* help, std::optional<double> value) {
      if (value) page.add({.name = name, .help = help}, labels, *value);
    };
    const DeviceFacts& facts = device.facts;
    add("triplepoint_gpu_memory_total_bytes", "Memory of the GPU, as the driver says it.",
        facts.memory ? std::optional(*facts.memory / unit::B) : std::nullopt);
    add("triplepoint_gpu_slowdown_temperature_celsius", "Where the hardware slows down.",
        facts.slowdown ? std::optional(facts.slowdown->degrees()) : std::nullopt);
  }
}

void add_jobs(const Snapshot& snapshot, const std::vector<JobLabels>& jobs, Page& page) {
  for (const JobLabels& job : jobs) {
    Labels labels = {{"host", snapshot.node.host}};
    labels.insert(labels.end(), job.begin(), job.end());
    page.add({.name = "triplepoint_job_info",
              .help = "A job on this host; join on host, as in power * on(host) group_left(job) "
                      "triplepoint_job_info."},
             std::move(labels), 1);
  }
}

void add_own_cost(const OwnCost& cost, const ExpositionOptions& options, Page& page) {
  page.add({.name = "triplepoint_build_info", .help = "The program that exports."},
           {{"version", options.version}}, 1);
  page.add({.name = "process_cpu_seconds_total",
            .help = "Processor time of the exporter.",
            .counter = true},
           {}, cost.process_cpu_s);
  if (cost.resident_b)
    page.add({.name = "process_resident_memory_bytes", .help = "Memory of the exporter."}, {},
             *cost.resident_b);
  const auto count = [&](const char* name, const char* help, double value) {
    page.add({.name = name, .help = help, .counter = true}, {}, value);
  };
  count("triplepoint_exporter_scrapes_total", "Pages given out.",
        static_cast<double>(cost.scrapes));
  count("triplepoint_sampler_ticks_total", "Ticks that were kept.",
        static_cast<double>(cost.sampler.ticks));
  page.add({.name = "triplepoint_sampler_longest_call_seconds",
            .help = "Longest that one sensor took in one tick."},
           {}, cost.sampler.longest_call_s);
}

}  // namespace

std::string exposition(const Snapshot& snapshot, const std::vector<JobLabels>& jobs,
                       const OwnCost& cost, const ExpositionOptions& options) {
  Page page;
  for (const LiveReading& reading : snapshot.readings)
    add_reading(snapshot, reading, options.dcgm_names, page);
  add_facts(snapshot, page);
  add_jobs(snapshot, jobs, page);
  add_own_cost(cost, options, page);
  return page.text();
}

}  // namespace triplepoint::telemetry
