// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"

#include "triplepoint/telemetry/sensor.h"

/// What the node has besides its GPUs.

namespace triplepoint::telemetry::host {

/// Power and energy of an HPE Cray node, ten times a second and with their own stamps, from
/// /sys/cray/pm_counters. Null where that is not there. Signals that another sensor reads already
/// are left to it.
std::unique_ptr<Sensor> open_cray(const Path& sysfs, const std::vector<std::string>& read_already);

/// CPU time by mode and memory in use, of /proc/stat and /proc/meminfo.
std::unique_ptr<Sensor> open_proc(const Path& proc);

/// Energy of CPU packages and DRAM, of /sys/class/powercap (RAPL). Domains that lie inside another
/// one (cores in the package, everything in the platform) are not added to it.
std::unique_ptr<Sensor> open_rapl(const Path& sysfs);

/// Temperatures of CPUs and of the inlet, power of Grace modules, of /sys/class/hwmon.
std::unique_ptr<Sensor> open_hwmon(const Path& sysfs);

/// Bytes through InfiniBand and RoCE adapters and through Ethernet, of /sys/class.
std::unique_ptr<Sensor> open_network(const Path& sysfs);

/// Power of the whole node, by what is there: the command of the options; Cray's pm_counters; an
/// ACPI power meter; IPMI through ipmitool. Null if none; `gaps` says why.
std::unique_ptr<Sensor> open_node_power(const SensorOptions&, std::vector<Gap>& gaps);

void node_facts(const SensorPaths&, NodeFacts&);

}  // namespace triplepoint::telemetry::host
