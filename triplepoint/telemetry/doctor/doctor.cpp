// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/doctor/doctor.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "triplepoint/base/json.h"
#include "triplepoint/base/statistics.h"

namespace triplepoint::telemetry {
namespace {

/// What the sampler saw of one channel.
struct Seen {
  int64_t count = 0;
  double last = 0;
};

std::vector<Seen> watch(Sampler& sampler, Seconds look) {
  using Clock = std::chrono::steady_clock;
  std::vector<Seen> seen(sampler.channels().size());
  std::vector<Sample> samples;
  sampler.start();
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(look / unit::s));
  while (Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    samples.clear();
    sampler.take(samples);
    for (const Sample& sample : samples) {
      Seen& one = seen[static_cast<std::size_t>(sample.channel)];
      ++one.count;
      one.last = sample.value;
    }
  }
  sampler.stop();
  return seen;
}

bool same_kind(const run::SeriesSource& a, const run::SeriesSource& b) {
  return a.signal == b.signal && a.of_node == b.of_node && a.scope == b.scope && a.kind == b.kind &&
         a.sensor == b.sensor;
}

std::vector<Measurable> group(const std::vector<run::SeriesSource>& channels,
                              const std::vector<Seen>& seen,
                              const std::vector<std::optional<Seconds>>& periods) {
  std::vector<Measurable> groups;
  std::vector<std::vector<Seconds>> found;
  for (std::size_t c = 0; c < channels.size(); ++c) {
    const auto same = [&](const Measurable& m) { return same_kind(m.about, channels[c]); };
    auto at = std::find_if(groups.begin(), groups.end(), same);
    if (at == groups.end()) {
      groups.push_back({.about = channels[c]});
      found.emplace_back();
      at = groups.end() - 1;
    }
    ++at->channels;
    if (!channels[c].of_node) ++at->devices;
    if (seen[c].count == 0) continue;
    if (at->answering++ == 0) at->example = seen[c].last;
    // Where no period could be seen, the sampler says the stated one: not of this machine.
    if (seen[c].count > 2 && periods[c] && periods[c] != channels[c].period)
      found[static_cast<std::size_t>(at - groups.begin())].push_back(*periods[c]);
  }
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (!found[g].empty()) groups[g].seen_period = upper_median(std::move(found[g]));
  return groups;
}

template <class T>
void put(Json& json, const char* key, const std::optional<T>& value, T unit) {
  if (value) json[key] = *value / unit;
}

Json json_of(const Measurable& one) {
  Json json = {{"signal", one.about.signal},        {"of", one.about.of_node ? "node" : "gpu"},
               {"scope", name_of(one.about.scope)}, {"kind", name_of(one.about.kind)},
               {"sensor", one.about.sensor},        {"channels", one.channels},
               {"answering", one.answering}};
  put(json, "stated_period_s", one.about.period, unit::s);
  put(json, "seen_period_s", one.seen_period, unit::s);
  put(json, "window_s", one.about.window, unit::s);
  if (one.example) json["example"] = *one.example;
  return json;
}

Json json_of(const DeviceFacts& facts) {
  Json json = {{"index", facts.device.local},
               {"name", facts.device.name},
               {"uuid", facts.device.uuid},
               {"pci", facts.device.pci},
               {"vendor", facts.vendor}};
  put(json, "power_limit_w", facts.power_limit, unit::W);
  put(json, "memory_b", facts.memory, unit::B);
  if (facts.mig) json["mig"] = *facts.mig;
  if (facts.persistence) json["persistence"] = *facts.persistence;
  return json;
}

}  // namespace

Examination examine(Sensors sensors, const SensorPaths& paths, const Variable& variable,
                    Seconds look) {
  Examination found;
  found.node = sensors.node;
  found.devices = sensors.devices;
  found.gaps = sensors.gaps;
  found.findings = environment_findings(paths, variable, sensors.devices);
  SamplingPlan plan;
  plan.probe = std::min(plan.probe, look / 2);
  Sampler sampler(std::move(sensors.all), plan);
  const std::vector<Gap> gaps = sampler.gaps();
  found.gaps.insert(found.gaps.end(), gaps.begin(), gaps.end());
  const std::vector<Seen> seen = watch(sampler, look);
  found.measurable = group(sampler.channels(), seen, sampler.periods());
  found.cost = sampler.cost();
  found.looked_s = look / unit::s;
  for (std::string& trouble : sampler.take_troubles())
    found.findings.push_back({Finding::Weight::warning, std::move(trouble), "", ""});
  return found;
}

Json examination_json(const Examination& found) {
  Json gpus = Json::array(), measurable = Json::array(), missing = Json::array(),
       findings = Json::array();
  for (const DeviceFacts& facts : found.devices)
    gpus.push_back(json_of(facts));
  for (const Measurable& one : found.measurable)
    measurable.push_back(json_of(one));
  for (const Gap& gap : found.gaps)
    missing.push_back({{"what", gap.what}, {"why", gap.why}, {"remedy", gap.remedy}});
  for (const Finding& finding : found.findings)
    findings.push_back({{"weight", finding.weight == Finding::Weight::warning ? "warning" : "note"},
                        {"what", finding.what},
                        {"why", finding.why},
                        {"remedy", finding.remedy}});
  return {{"schema", 1},
          {"host", found.node.host},
          {"kernel", found.node.kernel},
          {"cpu", found.node.cpu},
          {"nvidia_driver", found.node.nvidia_driver},
          {"amd_driver", found.node.amd_driver},
          {"gpus", std::move(gpus)},
          {"measurable", std::move(measurable)},
          {"missing", std::move(missing)},
          {"findings", std::move(findings)},
          {"sampler",
           {{"cpu_share", found.looked_s > 0 ? found.cost.cpu_s / found.looked_s : 0.0},
            {"longest_call_s", found.cost.longest_call_s},
            {"slowest_sensor", found.cost.slowest_sensor},
            {"lost_ticks", found.cost.lost_ticks}}}};
}

}  // namespace triplepoint::telemetry
