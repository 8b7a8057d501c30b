// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/charts/measures.h"

#include <cctype>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

namespace triplepoint::report {

std::vector<NamedPart> kernel_parts(const metrics::KernelSeconds& kernels) {
  std::vector<NamedPart> parts;
  for (const metrics::KernelPart& part : metrics::kernel_classes()) {
    std::string style = fmt::format("k-{}", part.key);
    std::erase(style, '_');
    parts.push_back({part.label, std::move(style), part.of(kernels) / unit::s});
  }
  return parts;
}

std::vector<NamedPart> memory_parts(const run::MemoryUse& memory) {
  return {{"weights", "m-weights", memory.weights / unit::GiB},
          {"gradients", "m-gradients", memory.gradients / unit::GiB},
          {"optimizer", "m-optimizer", memory.optimizer / unit::GiB},
          {"activations", "m-activations", memory.activations / unit::GiB},
          {"logits", "m-logits", memory.logits / unit::GiB},
          {"buffers", "m-buffers", memory.buffers / unit::GiB},
          {"reserve", "m-reserve", memory.reserve / unit::GiB}};
}

std::vector<BarPart> bar_parts_of(const std::vector<NamedPart>& parts, const std::string& unit) {
  std::vector<BarPart> pieces;
  pieces.reserve(parts.size());
  for (const NamedPart& part : parts) {
    pieces.push_back({part.value, part.style,
                      part.name.empty()
                          ? ""
                          : fmt::format("{}: {} {}", part.name, significant(part.value), unit)});
  }
  return pieces;
}

std::vector<LegendEntry> legend_of(const std::vector<NamedPart>& parts) {
  std::vector<LegendEntry> legend;
  legend.reserve(parts.size());
  for (const NamedPart& part : parts)
    legend.push_back({part.style, part.name});
  return legend;
}

Bar stacked_bar(std::string label, const std::vector<NamedPart>& parts, const std::string& unit) {
  Bar bar{.label = std::move(label), .parts = bar_parts_of(parts, unit)};
  double sum = 0;
  for (const NamedPart& part : parts)
    sum += part.value;
  bar.text = significant(sum);
  return bar;
}

namespace {

constexpr const char* highest_reading = "Mark: the highest reading of any GPU. ";

/// What a job is good at besides its speed and energy.
Measure quality_of(spec::Task task) {
  if (task == spec::Task::prefill)
    return {"first-token", "time to the first token", "s", "time_to_first_token_s", "", false, 0,
            "is first"};
  if (task == spec::Task::decode)
    return {"next-token", "time to the next token", "s", "time_per_output_token_s", "", false, 0,
            "is first"};
  return {"efficiency", "training efficiency", "samples/(s MJ)", "samples_per_s_mj", "", true, 0,
          "is best"};
}

}  // namespace

std::vector<Measure> measures_of_speed(spec::Task task) {
  return {{"throughput", "throughput", "tokens/s", "tokens_per_s", "", true, 0, "is fastest"},
          {"energy", "energy", "J/token", "joules_per_token", "", false, 0, "needs least"},
          quality_of(task)};
}

std::vector<Measure> measures_of_heat() {
  return {{"power", "power of a GPU, mean and peak", "W", "power_w.mean", "power_w.peak", true, 0,
           "draws most", highest_reading},
          {"temperature", "die temperature, mean and peak", "°C", "temperature_c.mean",
           "temperature_c.peak", true, 20, "is hottest", highest_reading},
          {"clock", "SM clock, mean and the slowest GPU's", "MHz", "sm_clock_mhz.mean", "", false,
           1000, "is slowest"}};
}

std::string capitalized(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

// ---- numbers of devices

namespace {

using Values = std::vector<double>;
constexpr double per_cent = 100;

/// Three digits. Below 0.0005 of its unit it is what rounding leaves of equal numbers.
std::string deviation_text(double deviation) {
  return deviation < 0.0005 ? "0" : significant(deviation);
}

Values in_gigabytes(Values bytes) {
  for (double& value : bytes)
    value /= 1e9;
  return bytes;
}

Values in_per_cent(Values shares) {
  for (double& share : shares)
    share *= per_cent;
  return shares;
}

}  // namespace

std::vector<DeviceSignal> device_signals() {
  using M = const metrics::Metrics&;
  return {
      {"temperature", "°C", "is hottest", "is coolest", [](M m) { return m.temperature_per_gpu_c; },
       true, 1, &metrics::Metrics::temperature_spread_c},
      {"memory temperature", "°C", "has the hottest memory", "the coolest",
       [](M m) { return m.memory_per_gpu_c; }, true, 1, &metrics::Metrics::memory_spread_c},
      {"power", "W", "draws most", "draws least", [](M m) { return m.power_per_gpu_w; }, true, 1,
       &metrics::Metrics::power_spread_w},
      {"memory power", "W", "has the memory that draws most", "the memory that draws least",
       [](M m) { return m.memory_power_per_gpu_w; }},
      {"clock", "MHz", "is fastest", "is slowest", [](M m) { return m.sm_clock_per_gpu_mhz; }, true,
       0, &metrics::Metrics::clock_spread_mhz},
      {"utilization", "%", "is used most", "is used least",
       [](M m) { return in_per_cent(m.utilization_per_gpu); }, false, 1,
       &metrics::Metrics::utilization_spread, per_cent, " Time in which a kernel sits on the GPU."},
      {"throttling", "% of time", "is held back most", "is held back least",
       [](M m) { return in_per_cent(m.throttled_per_gpu); }, true, 1, nullptr, 1,
       " Time with any reason for a clock below the requested one; reasons at once count once. "
       "In a recording: what polled reasons show, and at least the longest reason's counter."},
      {"scale-up traffic", "GB sent inside the node, a step", "sends most", "sends least",
       [](M m) { return in_gigabytes(m.links.scale_up_per_gpu_bytes); }, false, 2},
      {"scale-out traffic", "GB sent between nodes, a step", "sends most", "sends least",
       [](M m) { return in_gigabytes(m.links.scale_out_per_gpu_bytes); }, false, 2},
      {"PCIe received", "GB a step", "receives most", "receives least",
       [](M m) { return in_gigabytes(m.links.pcie_received_per_gpu_bytes); }, false, 3},
      {"PCIe sent", "GB a step", "sends most", "sends least",
       [](M m) { return in_gigabytes(m.links.pcie_sent_per_gpu_bytes); }, false, 3}};
}

std::string spread_text(const DeviceSignal& signal, const metrics::Spread& spread,
                        std::string_view of_what) {
  std::string text;
  const auto add = [&](const std::optional<double>& deviation, const char* where) {
    if (deviation)
      text += fmt::format("{} {} {} {}", text.empty() ? "" : ",",
                          deviation_text(*deviation * signal.scale), signal.unit, where);
  };
  add(spread.within_nodes, "within a node");
  add(spread.between_nodes, "between the means of nodes");
  return text.empty() ? "" : fmt::format(" Standard deviation{}:{}.", of_what, text);
}

}  // namespace triplepoint::report
