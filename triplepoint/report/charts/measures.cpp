// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/charts/measures.h"

#include <cctype>

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
  return mapped(parts, [&](const NamedPart& part) {
    return BarPart{part.value, part.style,
                   fmt::format("{}: {} {}", part.name, significant(part.value), unit)};
  });
}

std::vector<LegendEntry> legend_of(const std::vector<NamedPart>& parts) {
  return mapped(parts, [](const NamedPart& part) { return LegendEntry{part.style, part.name}; });
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

std::vector<Measure> measures_of_sweeps(spec::Task task) {
  return {
      {"throughput", "throughput", "tokens/s", "tokens_per_s", "", true, 0, ""},
      quality_of(task),
      {"power", "mean power of a GPU", "W", "power_w.mean", "", true, 100, ""},
      {"peak-power", "peak power", "W", "power_w.peak", "", true, 100, ""},
      {"peak-temperature", "peak die temperature", "°C", "temperature_c.peak", "", true, 20, ""},
      {"clock", "mean SM clock", "MHz", "sm_clock_mhz.mean", "", true, 1000, ""}};
}

std::string capitalized(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

std::string deviation_text(double deviation) {
  return deviation < 0.0005 ? "0" : significant(deviation);
}

}  // namespace triplepoint::report
