// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/doctor_text.h"

#include <fmt/format.h>

#include "triplepoint/tui/table_text.h"

namespace triplepoint::tui {
namespace {

using telemetry::Examination;
using telemetry::Finding;
using telemetry::Measurable;

std::string period_text(const std::optional<Seconds>& period) {
  if (!period) return "";
  const double ms = *period / unit::ms;
  return ms < 950 ? fmt::format("{:.0f} ms", ms) : fmt::format("{:.1f} s", ms / 1000);
}

std::string of_text(const Measurable& one) {
  if (one.about.of_node)
    return one.channels == 1 ? "node" : fmt::format("node, {} x", one.channels);
  return fmt::format("{} GPU{}", one.devices, one.devices == 1 ? "" : "s");
}

std::string answer_text(const Measurable& one) {
  if (one.answering == 0) return "no reading";
  if (one.answering < one.channels) return fmt::format("{} of {}", one.answering, one.channels);
  return "yes";
}

std::string measurable_table(const std::vector<Measurable>& all, const Console& console) {
  DataTable table = text_table({{"signal", Align::left},
                                {"of", Align::left},
                                {"scope", Align::left},
                                {"kind", Align::left},
                                {"answers", Align::left},
                                {"new every", Align::right},
                                {"stated", Align::right, true},
                                {"sensor", Align::left}});
  for (const Measurable& one : all)
    table.add({one.about.signal,
               of_text(one),
               std::string(name_of(one.about.scope)),
               std::string(name_of(one.about.kind)),
               {answer_text(one), one.answering < one.channels ? Style::warning : Style::plain},
               one.seen_period ? period_text(one.seen_period) : "-",
               period_text(one.about.period),
               one.about.sensor});
  return table_text(table, console);
}

std::string indented(const std::string& text, const Console& console, std::string_view indent) {
  const std::size_t width = console.abilities().width.value_or(100);
  return wrap(std::string(indent) + text, width, indent) + "\n";
}

std::string missing_text(const std::vector<telemetry::Gap>& gaps, const Console& console) {
  std::string text;
  for (const telemetry::Gap& gap : gaps) {
    text += indented(gap.what + ": " + gap.why, console, "  ");
    if (!gap.remedy.empty())
      text += console.styled(indented("-> " + gap.remedy, console, "     "), Style::good);
  }
  return text;
}

std::string findings_text(const std::vector<Finding>& findings, const Console& console) {
  std::string text;
  for (const Finding& finding : findings) {
    const bool warning = finding.weight == Finding::Weight::warning;
    text += console.styled(
        indented(finding.what + (finding.why.empty() ? "" : ": " + finding.why), console, "  "),
        warning ? Style::warning : Style::plain);
    if (!finding.remedy.empty())
      text += console.styled(indented("-> " + finding.remedy, console, "     "), Style::good);
  }
  return text;
}

std::string node_text(const Examination& found, const Console& console) {
  const telemetry::NodeFacts& node = found.node;
  std::string text = console.styled(node.host, Style::bold);
  for (const std::string& fact : {node.system, node.cpu, node.kernel})
    if (!fact.empty()) text += "  " + fact;
  text += "\n";
  if (!node.nvidia_driver.empty()) text += "NVIDIA driver " + node.nvidia_driver + "\n";
  if (!node.amd_driver.empty()) text += "AMD driver " + node.amd_driver + "\n";
  if (found.devices.empty()) text += "no GPU that a driver here knows\n";
  for (const telemetry::DeviceFacts& gpu : found.devices) {
    text += fmt::format("GPU {}  {}  {}  {}", gpu.device.local, gpu.device.name, gpu.device.pci,
                        gpu.device.uuid);
    if (gpu.power_limit) text += fmt::format("  limit {:.0f} W", *gpu.power_limit / unit::W);
    text += "\n";
  }
  return text;
}

std::string ratio_text(const telemetry::Comparison& one) {
  if (one.agrees()) return "agrees";
  return fmt::format("{:+.0f} %", (one.ratio - 1) * 100);
}

}  // namespace

std::string examination_text(const Examination& found, const Console& console) {
  const auto heading = [&](const char* words) {
    return "\n" + console.styled(words, Style::bold) + "\n";
  };
  std::string text = node_text(found, console);
  text += heading("What is measured here") + measurable_table(found.measurable, console);
  if (!found.gaps.empty())
    text += heading("What is missing, and what would help") + missing_text(found.gaps, console);
  if (!found.findings.empty())
    text += heading("What to know about this machine") + findings_text(found.findings, console);
  const double share = found.looked_s > 0 ? found.cost.cpu_s / found.looked_s : 0;
  text += fmt::format(
      "\nMeasuring took {:.2f} % of one core over {:.1f} s (with the search for update periods); "
      "longest call {:.2f} ms ({}).\n",
      share * 100, found.looked_s, found.cost.longest_call_s * 1e3, found.cost.slowest_sensor);
  return text;
}

std::string cluster_draft_text(const telemetry::ClusterDraft& draft, const Console& console) {
  DataTable table = text_table({{"number", Align::left},
                                {"found", Align::right},
                                {draft.base, Align::right},
                                {"", Align::left},
                                {"source", Align::left}});
  for (const telemetry::Comparison& one : draft.comparisons)
    table.add({one.what,
               one.found,
               one.library,
               {ratio_text(one), one.agrees() ? Style::good : Style::warning},
               one.source});
  return table_text(table, console);
}

}  // namespace triplepoint::tui
