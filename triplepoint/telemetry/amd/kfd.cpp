// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/amd/kfd.h"

#include <map>
#include <sstream>

#include <fmt/format.h>

#include "triplepoint/telemetry/kept_file.h"

namespace triplepoint::telemetry::amd {
namespace {

constexpr uint64_t is_xgmi = 11;  // link type, HSA_IOLINK_TYPE_XGMI

using Properties = std::map<std::string, uint64_t>;

/// "key number" lines.
Properties properties_of(const Path& folder) {
  Properties properties;
  const auto text = read_file(folder / "properties");
  std::istringstream lines(text ? *text : "");
  for (std::string key, value; lines >> key >> value;)
    if (const auto number = leading_count(value)) properties[key] = *number;
  return properties;
}

uint64_t get(const Properties& properties, const char* key) {
  const auto found = properties.find(key);
  return found != properties.end() ? found->second : 0;
}

/// location_id is bus << 8 | device << 3 | function.
std::string pci_of(const Properties& node) {
  const uint64_t location = get(node, "location_id");
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", get(node, "domain"), location >> 8U & 0xffU,
                     location >> 3U & 0x1fU, location & 7U);
}

/// 90402 is gfx942, 90010 is gfx90a.
std::string architecture_of(uint64_t version) {
  if (version == 0) return "";
  return fmt::format("gfx{}{}{:x}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace

void add_kfd_facts(const Path& nodes, DeviceFacts& facts) {
  for (const std::string& name : names_in(nodes)) {
    const Properties node = properties_of(nodes / name);
    if (get(node, "simd_count") == 0 || pci_of(node) != facts.device.pci) continue;
    facts.architecture = architecture_of(get(node, "gfx_target_version"));
    for (const std::string& link : names_in(nodes / name / "io_links")) {
      const Properties xgmi = properties_of(nodes / name / "io_links" / link);
      if (get(xgmi, "type") != is_xgmi) continue;
      LinkFacts to{.kind = LinkKind::xgmi, .remote_pci = "", .count = 1, .bandwidth = {}};
      const Properties remote = properties_of(nodes / std::to_string(get(xgmi, "node_to")));
      if (get(remote, "simd_count") > 0) to.remote_pci = pci_of(remote);
      if (const uint64_t megabytes = get(xgmi, "max_bandwidth"); megabytes > 0)
        to.bandwidth = static_cast<double>(megabytes) * (unit::MB / unit::s);
      facts.links.push_back(std::move(to));
    }
  }
}

}  // namespace triplepoint::telemetry::amd
