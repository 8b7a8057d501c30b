// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/node_answers.h"

#include "triplepoint/telemetry/live/snapshot.h"

namespace triplepoint::app {
namespace {

using answers::Remark;
using telemetry::DeviceFacts;

DataCell judged(DataCell cell, bool good, Style otherwise_good = Style::plain) {
  cell.style = good ? otherwise_good : Style::warning;
  return cell;
}

DataTable measurable_table(const std::vector<telemetry::Measurable>& all) {
  constexpr double ms = 1e-3;
  DataTable table{
      .name = "measurable",
      .title = "What is measured here",
      .columns = {
          {"signal", "signal"},
          {"of", "of"},
          {"scope", "scope"},
          {"kind", "kind"},
          {"channels", "channels"},
          {"answering", "answering"},
          {.key = "seen_period_s", .title = "new every, ms", .scale = ms},
          {.key = "stated_period_s", .title = "stated, ms", .scale = ms, .optional = 1},
          {.key = "window_s", .title = "averaged over, ms", .scale = ms, .optional = 2},
          {.key = "example", .title = "example", .digits = 4, .optional = 3, .significant = true},
          {"sensor", "sensor"}}};
  const auto time = [](const std::optional<Seconds>& of, const char* why) -> DataCell {
    return of ? DataCell(*of / unit::s) : Missing{why};
  };
  for (const telemetry::Measurable& one : all)
    table.add({one.about.signal, one.about.of_node ? "node" : "gpu",
               std::string(name_of(one.about.scope)), std::string(name_of(one.about.kind)),
               int64_t{one.channels}, judged(int64_t{one.answering}, one.answering == one.channels),
               time(one.seen_period, "too few changes were seen"),
               time(one.about.period, "no period is stated"),
               time(one.about.window, "no average, or of a window that is not stated"),
               cell_of(one.example, "no reading"), one.about.sensor});
  return table;
}

void add(answers::Section& section, Remark::Kind kind, const std::string& what,
         const std::string& why, const std::string& remedy) {
  section.remarks.push_back({why.empty() ? what : what + ": " + why, kind});
  if (!remedy.empty()) section.remarks.push_back({remedy, Remark::Kind::command});
}

std::string facts_of(const telemetry::Examination& found) {
  const telemetry::NodeFacts& node = found.node;
  std::string text;
  const auto add = [&](const char* before, const std::string& fact) {
    if (!fact.empty()) text += (text.empty() ? "" : ", ") + (before + fact);
  };
  add("", node.system), add("", node.cpu), add("", node.kernel);
  add("NVIDIA driver ", node.nvidia_driver), add("AMD driver ", node.amd_driver);
  if (found.devices.empty()) add("", "no GPU that a driver here knows");
  return fmt::format(
      "{}. Measuring took {:.2f} % of one core over {:.1f} s (with the search for update periods); "
      "longest call {:.2f} ms ({}).",
      text, 100 * found.cpu_share(), found.looked_s, found.cost.longest_call_s * 1e3,
      found.cost.slowest_sensor);
}

Json numbers_of(const telemetry::Examination& found) {
  const telemetry::NodeFacts& node = found.node;
  return {{"schema", 1},
          {"host", node.host},
          {"kernel", node.kernel},
          {"cpu", node.cpu},
          {"nvidia_driver", node.nvidia_driver},
          {"amd_driver", node.amd_driver},
          {"gpus", mapped<Json>(found.devices,
                                [](const DeviceFacts& facts) {
                                  Json json = telemetry::json_of(facts);
                                  if (facts.mig) json["mig"] = *facts.mig;
                                  if (facts.persistence) json["persistence"] = *facts.persistence;
                                  return json;
                                })},
          {"missing", telemetry::json_of(found.gaps)},
          {"findings", mapped<Json>(found.findings,
                                    [](const telemetry::Finding& finding) -> Json {
                                      return {{"weight", finding.is_warning() ? "warning" : "note"},
                                              {"what", finding.what},
                                              {"why", finding.why},
                                              {"remedy", finding.remedy}};
                                    })},
          {"sampler",
           {{"cpu_share", found.cpu_share()},
            {"longest_call_s", found.cost.longest_call_s},
            {"slowest_sensor", found.cost.slowest_sensor},
            {"lost_ticks", found.cost.lost_ticks}}}};
}

}  // namespace

answers::Document examination_answer(const telemetry::Examination& found) {
  DataTable gpus = text_table({{"GPU"},
                               {"model", Align::left},
                               {"PCI", Align::left},
                               {"UUID", Align::left, 1},
                               {"power limit"}});
  for (const DeviceFacts& gpu : found.devices)
    gpus.add({int64_t{gpu.device.local}, gpu.device.name, gpu.device.pci, gpu.device.uuid,
              gpu.power_limit ? fmt::format("{:.0f} W", *gpu.power_limit / unit::W) : ""});
  answers::Section missing{"missing", "What is missing, and what would help"};
  for (const telemetry::Gap& gap : found.gaps)
    add(missing, Remark::Kind::finding, gap.what, gap.why, gap.remedy);
  answers::Section machine{"findings", "What to know about this machine"};
  for (const telemetry::Finding& finding : found.findings)
    add(machine, finding.is_warning() ? Remark::Kind::warning : Remark::Kind::note, finding.what,
        finding.why, finding.remedy);
  return {.kind = "doctor",
          .title = found.node.host,
          .facts = facts_of(found),
          .sections = {{.id = "gpus", .tables = {gpus}},
                       {.id = "measurable", .tables = {measurable_table(found.measurable)}},
                       missing,
                       machine},
          .numbers = numbers_of(found)};
}

answers::Document cluster_draft_answer(const telemetry::ClusterDraft& draft,
                                       const telemetry::NodeShape& shape) {
  DataTable table{.name = "comparisons",
                  .columns = {{"number", "number"},
                              {.key = "found", .title = "found", .align = Align::right},
                              {.key = "library", .title = draft.base, .align = Align::right},
                              {.key = "ratio", .title = "found / library", .digits = 2},
                              {"source", "source"}}};
  for (const telemetry::Comparison& one : draft.comparisons)
    table.add({one.what, one.found, one.library, judged(one.ratio, one.agrees(), Style::good),
               one.source});
  Json rows = table_json(table)["rows"];
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i]["agrees"] = draft.comparisons[i].agrees();
  answers::Section section{.id = "comparisons", .tables = {table}};
  for (const std::string& remark : draft.remarks)
    section.remarks.push_back({remark, Remark::Kind::note});
  return {.kind = "discover",
          .title = fmt::format("{}: {} x {}, described on top of {}", shape.host, shape.gpus,
                               shape.model, draft.base),
          .sections = {section},
          .numbers = {{"host", shape.host},
                      {"model", shape.model},
                      {"gpus", shape.gpus},
                      {"links", shape.links},
                      {"nics", shape.nics},
                      {"base", draft.base},
                      {"gpu", draft.gpu},
                      {"comparisons", std::move(rows)},
                      {"remarks", draft.remarks},
                      {"toml", draft.toml}}};
}

}  // namespace triplepoint::app
