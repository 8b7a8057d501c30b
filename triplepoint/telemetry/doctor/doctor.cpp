// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/doctor/doctor.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include <sys/timex.h>
#include <unistd.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/statistics.h"

#include "triplepoint/system/process.h"
#include "triplepoint/telemetry/live/snapshot.h"
#include "triplepoint/telemetry/sensor_opening.h"

namespace triplepoint::telemetry {
namespace {

using Weight = Finding::Weight;

std::optional<std::string> container(const SensorPaths& paths, const Variable& variable) {
  if (const auto name = variable("container")) return *name;
  if (path_exists("/.dockerenv")) return "docker";
  if (path_exists("/run/.containerenv")) return "podman";
  const auto groups = read_file(paths.proc / "1/cgroup");
  for (const char* word : {"kubepods", "docker", "containerd", "lxc"})
    if (groups && groups->find(word) != std::string::npos) return word;
  return std::nullopt;
}

void look_for_container(const SensorPaths& paths, const Variable& variable,
                        std::vector<Finding>& findings) {
  const auto name = container(paths, variable);
  if (!name) return;
  const bool own = paths.sysfs == "/sys" && paths.proc == "/proc";
  findings.push_back(
      {Weight::note, fmt::format("this is a container ({})", *name),
       own ? "networks and processes are those of the container; energy and board sensors may be "
             "hidden"
           : "the host's trees are read, as set in the environment",
       own ? "mount the host's trees and set: -v /sys:/host/sys:ro -v /proc:/host/proc:ro "
             "-e TRIPLEPOINT_SYSFS=/host/sys -e TRIPLEPOINT_PROC=/host/proc"
           : ""});
}

/// NVML numbers what the node has, CUDA what it may see: the classical way to read the wrong GPU.
void look_for_visible_devices(const Variable& variable, std::vector<Finding>& findings) {
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"})
    if (const auto value = variable(name))
      findings.push_back({Weight::note, fmt::format("{}={}", name, *value),
                          "programs count from 0 inside of this list; the numbers here are those "
                          "of the node, and ranks are matched by UUID or PCI address",
                          ""});
  if (variable("CUDA_DEVICE_ORDER").value_or("PCI_BUS_ID") != "PCI_BUS_ID")
    findings.push_back({Weight::note, "CUDA_DEVICE_ORDER is not PCI_BUS_ID",
                        "CUDA may number GPUs in another order than the driver",
                        "export CUDA_DEVICE_ORDER=PCI_BUS_ID"});
  if (const auto value = variable("NVIDIA_VISIBLE_DEVICES"); value && *value != "all")
    findings.push_back({Weight::note, fmt::format("NVIDIA_VISIBLE_DEVICES={}", *value),
                        "the container's runtime shows only these GPUs", ""});
}

void look_for_launcher(const Variable& variable, std::vector<Finding>& findings) {
  const LaunchEnvironment launch = read_launch_environment(variable);
  if (launch.launcher.empty()) return;
  std::string what = "inside of a job of " + launch.launcher;
  if (!launch.job.empty()) what += " (" + launch.job + ")";
  if (launch.rank) what += fmt::format(", rank {}", *launch.rank);
  findings.push_back({Weight::note, std::move(what),
                      "record starts one recorder a node, whichever rank calls it first", ""});
}

void look_at_gpus(const std::vector<DeviceFacts>& devices, std::vector<Finding>& findings) {
  const auto any = [&](auto has) { return std::ranges::any_of(devices, has); };
  if (any([](const DeviceFacts& f) { return f.persistence == false; }))
    findings.push_back(
        {Weight::warning, "persistence mode is off",
         "the driver unloads when no process uses a GPU; first readings take long and "
         "counters begin anew",
         "nvidia-smi -pm 1"});
  if (any([](const DeviceFacts& f) { return f.mig == true; }))
    findings.push_back({Weight::note, "MIG is on",
                        "power and temperature are those of the whole GPU, shared by its instances",
                        ""});
  for (const DeviceFacts& facts : devices) {
    if (!facts.power_limit || !facts.power_limit_default) continue;
    if (*facts.power_limit >= *facts.power_limit_default) continue;
    findings.push_back(
        {Weight::warning,
         fmt::format("GPU {} is limited to {:.0f} W of {:.0f} W", facts.device.local,
                     *facts.power_limit / unit::W, *facts.power_limit_default / unit::W),
         "its power limit was lowered",
         fmt::format("nvidia-smi -i {} -pl {:.0f}", facts.device.local,
                     *facts.power_limit_default / unit::W)});
  }
  for (const DeviceFacts& facts : devices) {
    const bool narrow =
        facts.pcie_width && facts.pcie_width_max && *facts.pcie_width < *facts.pcie_width_max;
    if (narrow)
      findings.push_back({Weight::warning,
                          fmt::format("GPU {} has {} of {} PCIe lanes", facts.device.local,
                                      *facts.pcie_width, *facts.pcie_width_max),
                          "a riser, a cable or the slot", "reseat it; lspci -vv shows LnkSta"});
  }
}

/// Runs of several nodes are put on one time line by their clocks first.
void look_at_clock(std::vector<Finding>& findings) {
  timex state{};
  if (::adjtimex(&state) != TIME_ERROR && (state.status & STA_UNSYNC) == 0) return;
  findings.push_back({Weight::note, "the clock of this node is not synchronized",
                      "runs of several nodes are then aligned by their collectives alone",
                      "timedatectl set-ntp true, or start chrony"});
}

void look_at_permissions(const SensorPaths& paths, std::vector<Finding>& findings) {
  if (::access("/dev/shm", W_OK) != 0)
    findings.push_back({Weight::warning, "/dev/shm cannot be written to",
                        "marks of a training reach the recorder through it",
                        "mount it: docker run --ipc=host, or --shm-size=64m"});
  const auto level = read_file(paths.proc / "sys/kernel/perf_event_paranoid");
  if (level && std::atoi(level->c_str()) > 0 && ::geteuid() != 0)
    findings.push_back({Weight::note,
                        fmt::format("kernel.perf_event_paranoid is {}", std::atoi(level->c_str())),
                        "events of the whole machine (energy by perf) are for root",
                        "sysctl kernel.perf_event_paranoid=0"});
}

}  // namespace

std::vector<Finding> environment_findings(const SensorPaths& paths, const Variable& variable,
                                          const std::vector<DeviceFacts>& devices) {
  std::vector<Finding> findings;
  look_for_container(paths, variable, findings);
  look_for_visible_devices(variable, findings);
  look_for_launcher(variable, findings);
  look_at_gpus(devices, findings);
  look_at_permissions(paths, findings);
  look_at_clock(findings);
  return findings;
}

namespace {

/// What the sampler saw of one channel.
struct ChannelSamples {
  int64_t count = 0;
  double last = 0;
};

std::vector<ChannelSamples> watch(Sampler& sampler, Seconds look) {
  using Clock = std::chrono::steady_clock;
  std::vector<ChannelSamples> seen(sampler.channels().size());
  std::vector<Sample> samples;
  sampler.start();
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(look / unit::s));
  while (Clock::now() < end && !interrupted()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    samples.clear();
    sampler.take(samples);
    for (const Sample& sample : samples) {
      ChannelSamples& one = seen[as_size(sample.channel)];
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
                              const std::vector<ChannelSamples>& seen,
                              const std::vector<std::optional<Seconds>>& periods) {
  std::vector<Measurable> groups;
  std::vector<std::vector<Seconds>> found;
  for (std::size_t c = 0; c < channels.size(); ++c) {
    const auto same = [&](const Measurable& m) { return same_kind(m.about, channels[c]); };
    auto at = std::ranges::find_if(groups, same);
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
      found[as_size(at - groups.begin())].push_back(*periods[c]);
  }
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (!found[g].empty()) groups[g].seen_period = upper_median(std::move(found[g]));
  return groups;
}

}  // namespace

Examination examine(Sensors sensors, const SensorPaths& paths, const Variable& variable,
                    Seconds look) {
  Examination found;
  found.node = sensors.node;
  found.devices = sensors.devices;
  found.gaps = sensors.gaps;
  if (sensors.opening != nullptr)
    for (Gap& gap : sensors.opening->outstanding())
      found.gaps.push_back(std::move(gap));
  found.findings = environment_findings(paths, variable, sensors.devices);
  SamplingPlan plan;
  plan.probe = std::min(plan.probe, look / 2);
  Sampler sampler(std::move(sensors.all), plan);
  const std::vector<Gap> gaps = sampler.gaps();
  found.gaps.insert(found.gaps.end(), gaps.begin(), gaps.end());
  const std::vector<ChannelSamples> seen = watch(sampler, look);
  found.measurable = group(sampler.channels(), seen, sampler.periods());
  found.cost = sampler.cost();
  found.looked_s = look / unit::s;
  for (std::string& trouble : sampler.take_troubles())
    found.findings.push_back({Finding::Weight::warning, std::move(trouble), "", ""});
  return found;
}

}  // namespace triplepoint::telemetry
