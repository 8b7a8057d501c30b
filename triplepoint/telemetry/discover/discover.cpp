// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/discover/discover.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace triplepoint::telemetry {
namespace {

std::string models_text(const std::vector<DeviceFacts>& devices) {
  std::map<std::string, int> count;
  for (const DeviceFacts& facts : devices)
    ++count[facts.device.name];
  std::vector<std::string> words;
  words.reserve(count.size());
  for (const auto& [name, number] : count)
    words.push_back(fmt::format("{} x {}", number, name));
  return fmt::format("{}", fmt::join(words, ", "));
}

/// Bytes per second of all links of a GPU in one direction; nothing if a link does not say.
std::optional<BytesPerSecond> link_bandwidth(const DeviceFacts& facts) {
  std::optional<BytesPerSecond> sum;
  for (const LinkFacts& link : facts.links) {
    if (!link.bandwidth) return std::nullopt;
    sum = sum.value_or(BytesPerSecond()) + *link.bandwidth;
  }
  return sum;
}

int32_t link_count(const DeviceFacts& facts) {
  int32_t count = 0;
  for (const LinkFacts& link : facts.links)
    count += link.count;
  return count;
}

/// Links to another GPU of this node make a mesh; the others end in a switch.
spec::ScaleUpKind scale_up_of(const std::vector<DeviceFacts>& devices) {
  bool any = false, direct = false;
  for (const DeviceFacts& facts : devices)
    for (const LinkFacts& link : facts.links) {
      any = true;
      direct |= link.kind == LinkKind::xgmi || !link.remote_pci.empty();
    }
  if (!any) return spec::ScaleUpKind::pcie;
  return direct ? spec::ScaleUpKind::mesh : spec::ScaleUpKind::nvswitch;
}

void fill_links(const std::vector<DeviceFacts>& devices, NodeShape& shape) {
  shape.scale_up = scale_up_of(devices);
  shape.links = link_count(devices.front());
  shape.scale_up_bandwidth = link_bandwidth(devices.front());
  for (const DeviceFacts& facts : devices) {
    if (link_count(facts) == shape.links) continue;
    shape.remarks.push_back(fmt::format("GPU {} has {} links up, GPU {} has {}", facts.device.local,
                                        link_count(facts), devices.front().device.local,
                                        shape.links));
    shape.links = std::max(shape.links, link_count(facts));
    if (link_bandwidth(facts) > shape.scale_up_bandwidth)
      shape.scale_up_bandwidth = link_bandwidth(facts);
  }
}

/// The adapters that join nodes: InfiniBand and RoCE; without them, the fastest Ethernet.
void fill_nics(const std::vector<NicFacts>& all, NodeShape& shape) {
  std::vector<NicFacts> nics;
  for (const NicFacts& nic : all)
    if (nic.up && nic.bandwidth && nic.kind != NicKind::ethernet) nics.push_back(nic);
  if (nics.empty())
    for (const NicFacts& nic : all)
      if (nic.up && nic.bandwidth) nics.push_back(nic);
  if (nics.empty()) {
    shape.remarks.push_back("no network adapter says how fast it is");
    return;
  }
  const auto slower = [](const NicFacts& a, const NicFacts& b) {
    return a.bandwidth < b.bandwidth;
  };
  const NicFacts fastest = *std::max_element(nics.begin(), nics.end(), slower);
  shape.nic_bandwidth = fastest.bandwidth;
  shape.nic_kind = fastest.kind;
  for (const NicFacts& nic : nics) {
    if (nic.bandwidth == fastest.bandwidth)
      ++shape.nics;
    else
      shape.remarks.push_back(
          fmt::format("{} is slower than the others, and is left out", nic.name));
  }
}

}  // namespace

Result<NodeShape> shape_of(const Sensors& sensors) {
  const std::vector<DeviceFacts>& devices = sensors.devices;
  if (devices.empty())
    return error(
        "no driver reports a GPU here (a cluster description needs GPUs); run it on a node with "
        "GPUs, triplepoint doctor lists what is missing, triplepoint list clusters the described "
        "machines");
  const std::string& model = devices.front().device.name;
  if (std::any_of(devices.begin(), devices.end(),
                  [&](const DeviceFacts& facts) { return facts.device.name != model; }))
    return error(
        fmt::format("this node has {} (GPUs of a cluster are all equal); choose with "
                    "--devices",
                    models_text(devices)));
  const DeviceFacts& first = devices.front();
  NodeShape shape{.host = sensors.node.host,
                  .model = model,
                  .gpus = static_cast<int64_t>(devices.size()),
                  .memory = first.memory,
                  .power_limit = first.power_limit,
                  .power_limit_default = first.power_limit_default,
                  .power_limit_min = first.power_limit_min,
                  .max_clock = first.max_sm_clock};
  fill_links(devices, shape);
  fill_nics(sensors.node.nics, shape);
  return shape;
}

}  // namespace triplepoint::telemetry
