// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/host/file_sensor.h"
#include "triplepoint/telemetry/host/host.h"

namespace triplepoint::telemetry::host {
namespace {

constexpr double infiniband_unit_b = 4;  // port_*_data count words. Source: IBA 1.3, PortCounters

struct Direction {
  std::vector<Path> words, bytes;
};

/// Ports of InfiniBand and RoCE adapters; EFA's adapters count bytes in other files.
void look_at_adapters(const Path& infiniband, const char* words, const char* bytes,
                      Direction& direction) {
  for (const std::string& adapter : names_in(infiniband))
    for (const std::string& port : names_in(infiniband / adapter / "ports")) {
      const Path folder = infiniband / adapter / "ports" / port;
      if (std::filesystem::exists(folder / "counters" / words))
        direction.words.push_back(folder / "counters" / words);
      else if (std::filesystem::exists(folder / "hw_counters" / bytes))
        direction.bytes.push_back(folder / "hw_counters" / bytes);
    }
}

/// Interfaces with hardware behind them: bonds, bridges and tunnels would count the same bytes
/// again, and IP over InfiniBand (type 32) is in the adapter's counters.
std::vector<Path> ethernet_files(const Path& net, const char* file) {
  std::vector<Path> files;
  for (const std::string& interface : names_in(net)) {
    const Path folder = net / interface;
    if (std::filesystem::exists(folder / "device") && first_line(folder / "type") == "1")
      files.push_back(folder / "statistics" / file);
  }
  return files;
}

void add(FileSensor& sensor, const char* signal, const char* from, double unit,
         std::vector<Path> files) {
  if (files.empty()) return;
  sensor.add({.channel = node_channel(signal, run::Scope::nic, run::ReadingKind::counter, from,
                                      Pace::slow),
              .files = std::move(files),
              .unit = unit,
              .moduli = {}},
             signal, "");
}

}  // namespace

std::unique_ptr<Sensor> open_network(const Path& sysfs) {
  auto sensor = std::make_unique<FileSensor>("network");
  Direction out, in;
  look_at_adapters(sysfs / "class/infiniband", "port_xmit_data", "tx_bytes", out);
  look_at_adapters(sysfs / "class/infiniband", "port_rcv_data", "rx_bytes", in);
  add(*sensor, "scale_out_tx_bytes", "infiniband port_xmit_data", infiniband_unit_b, out.words);
  add(*sensor, "scale_out_rx_bytes", "infiniband port_rcv_data", infiniband_unit_b, in.words);
  if (out.words.empty()) {
    add(*sensor, "scale_out_tx_bytes", "efa tx_bytes", 1, out.bytes);
    add(*sensor, "scale_out_rx_bytes", "efa rx_bytes", 1, in.bytes);
  }
  add(*sensor, "ethernet_tx_bytes", "net tx_bytes", 1,
      ethernet_files(sysfs / "class/net", "tx_bytes"));
  add(*sensor, "ethernet_rx_bytes", "net rx_bytes", 1,
      ethernet_files(sysfs / "class/net", "rx_bytes"));
  if (out.words.empty() && out.bytes.empty())
    sensor->add_gap({"InfiniBand and RoCE bytes",
                     "no adapter in " + (sysfs / "class/infiniband").string(), ""});
  return sensor;
}

}  // namespace triplepoint::telemetry::host
