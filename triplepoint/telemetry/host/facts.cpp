// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <fmt/format.h>
#include <unistd.h>

#include "triplepoint/telemetry/host/host.h"
#include "triplepoint/telemetry/host/texts.h"
#include "triplepoint/telemetry/kept_file.h"

namespace triplepoint::telemetry::host {
namespace {

/// The PCI address of what stands behind a class entry: the name of the folder its `device` links
/// to.
std::string pci_of(const Path& entry) {
  std::error_code failed;
  const Path device = std::filesystem::canonical(entry / "device", failed);
  const std::string name = failed ? "" : device.filename().string();
  return name.find(':') != std::string::npos ? name : "";
}

std::optional<int32_t> numa_of(const Path& entry) {
  const auto node = leading_number(first_line(entry / "device/numa_node"));
  return node && *node >= 0 ? std::optional(static_cast<int32_t>(*node)) : std::nullopt;
}

void adapter_facts(const Path& infiniband, NodeFacts& node) {
  for (const std::string& adapter : names_in(infiniband)) {
    NicFacts nic;
    nic.name = adapter;
    nic.pci = pci_of(infiniband / adapter);
    nic.numa_node = numa_of(infiniband / adapter);
    for (const std::string& port : names_in(infiniband / adapter / "ports")) {
      const Path folder = infiniband / adapter / "ports" / port;
      nic.kind =
          first_line(folder / "link_layer") == "Ethernet" ? NicKind::roce : NicKind::infiniband;
      nic.up = nic.up || first_line(folder / "state").find("ACTIVE") != std::string::npos;
      // "400 Gb/sec (4X NDR)"
      if (const auto rate = leading_number(first_line(folder / "rate")); rate && *rate > 0)
        nic.bandwidth = nic.bandwidth.value_or(BytesPerSecond()) + *rate * (unit::Gb / unit::s);
    }
    node.nics.push_back(std::move(nic));
  }
}

void interface_facts(const Path& net, NodeFacts& node) {
  for (const std::string& interface : names_in(net)) {
    const Path folder = net / interface;
    if (!std::filesystem::exists(folder / "device") || first_line(folder / "type") != "1") continue;
    NicFacts nic;
    nic.name = interface;
    nic.pci = pci_of(folder);
    nic.numa_node = numa_of(folder);
    nic.up = first_line(folder / "operstate") == "up";
    // Mb/s; -1 where there is no link
    if (const auto rate = leading_number(first_line(folder / "speed")); rate && *rate > 0)
      nic.bandwidth = *rate * (unit::Mb / unit::s);
    node.nics.push_back(std::move(nic));
  }
}

std::string joined(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : a + " " + b;
}

}  // namespace

void node_facts(const SensorPaths& paths, NodeFacts& node) {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) == 0) node.host = name.data();
  node.kernel = first_line(paths.proc / "sys/kernel/osrelease");
  const Path dmi = paths.sysfs / "class/dmi/id";
  node.system = joined(first_line(dmi / "sys_vendor"), first_line(dmi / "product_name"));
  if (const auto text = read_file(paths.proc / "cpuinfo")) {
    const CpuInfo info = parse_cpuinfo(*text);
    node.cpu = info.model;
    node.sockets = info.sockets;
    node.cores = info.cores;
    node.threads = info.threads;
  }
  if (const auto text = read_file(paths.proc / "meminfo"))
    if (const auto memory = parse_meminfo(*text))
      node.memory = static_cast<double>(memory->total_b) * unit::B;
  node.amd_driver = first_line(paths.sysfs / "module/amdgpu/version");
  adapter_facts(paths.sysfs / "class/infiniband", node);
  interface_facts(paths.sysfs / "class/net", node);
}

}  // namespace triplepoint::telemetry::host
