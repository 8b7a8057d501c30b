// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <sys/timex.h>
#include <unistd.h>

#include "triplepoint/telemetry/doctor/doctor.h"

namespace triplepoint::telemetry {
namespace {

using Weight = Finding::Weight;

bool exists(const Path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

std::optional<std::string> container(const SensorPaths& paths, const Variable& variable) {
  if (const auto name = variable("container")) return *name;
  if (exists("/.dockerenv")) return "docker";
  if (exists("/run/.containerenv")) return "podman";
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
           : "the host's trees are read, as the environment says",
       own ? "mount the host's trees and say so: -v /sys:/host/sys:ro -v /proc:/host/proc:ro "
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
  const auto any = [&](auto has) { return std::any_of(devices.begin(), devices.end(), has); };
  if (any([](const DeviceFacts& f) { return f.persistence == false; }))
    findings.push_back({Weight::warning, "persistence mode is off",
                        "the driver unloads when nobody uses a GPU; first readings take long and "
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
         "somebody lowered its power limit",
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

}  // namespace triplepoint::telemetry
