// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/charts/measures.h"

#include "triplepoint/base/text.h"

#include "triplepoint/answers/quantities.h"

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

/// Names and units of the catalogue.
std::vector<Measure> named(std::vector<Measure> measures) {
  for (Measure& measure : measures) {
    const answers::Quantity& quantity = answers::quantity_of(measure.key);
    measure.name = std::string(quantity.label) + (measure.peak_key.empty() ? "" : " and peak");
    measure.unit = answers::shown_unit(quantity).unit;
  }
  return measures;
}

/// What a job is good at besides its speed and energy.
Measure quality_of(spec::Task task) {
  if (task == spec::Task::prefill)
    return {"first-token", "time_to_first_token_s", "", false, 0, "is first"};
  if (task == spec::Task::decode)
    return {"next-token", "time_per_output_token_s", "", false, 0, "is first"};
  return {"efficiency", "samples_per_s_mj", "", true, 0, "is best"};
}

}  // namespace

std::vector<Measure> measures_of_speed(spec::Task task) {
  return named({{"throughput", "tokens_per_s", "", true, 0, "is fastest"},
                {"energy", "joules_per_token", "", false, 0, "needs least"},
                quality_of(task)});
}

std::vector<Measure> measures_of_heat() {
  std::vector<Measure> measures =
      named({{"power", "power_w.mean", "power_w.peak", true, 0, "draws most", highest_reading},
             {"temperature", "temperature_c.mean", "temperature_c.peak", true, 20, "is hottest",
              highest_reading},
             {"clock", "sm_clock_mhz.mean", "", false, 1000, "is slowest"}});
  measures.back().name += " and the slowest GPU's";
  return measures;
}

std::vector<Measure> measures_of_sweeps(spec::Task task) {
  return named({{"throughput", "tokens_per_s", "", true, 0, ""},
                quality_of(task),
                {"power", "power_w.mean", "", true, 100, ""},
                {"peak-power", "power_w.peak", "", true, 100, ""},
                {"peak-temperature", "temperature_c.peak", "", true, 20, ""},
                {"clock", "sm_clock_mhz.mean", "", true, 1000, ""}});
}

std::string deviation_text(double deviation) {
  return deviation < 0.0005 ? "0" : significant(deviation);
}

}  // namespace triplepoint::report
