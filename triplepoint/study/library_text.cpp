// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/library_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/json.h"

#include "triplepoint/spec/names.h"

#include "triplepoint/report/findings/labels.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::study {
namespace {

Json job_json(const spec::StudyJob& entry) {
  Json diagnoses = Json::array();
  for (const spec::Diagnosis& diagnosis : entry.diagnoses)
    diagnoses.push_back({{"code", spec::name_of(diagnosis.code)}, {"what", diagnosis.what}});
  return {{"name", entry.job.name},
          {"model", entry.job.model.name},
          {"cluster", entry.job.cluster.name},
          {"num_gpus", entry.job.world_size()},
          {"layout", report::configuration_label(entry.job)},
          {"variant", report::variant_label(entry.job)},
          {"micro_batch_size", entry.job.plan.micro_batch_size},
          {"diagnoses", std::move(diagnoses)}};
}

}  // namespace

Json shown_json(const LibraryEntry& shown) {
  Json numbers = Json::array();
  for (const spec::Provenance& number : shown.numbers) {
    numbers.push_back({{"key", number.key},
                       {"value", number.value},
                       {"kind", spec::enum_name(number.kind)},
                       {"source", number.cite},
                       {"file", number.file},
                       {"line", number.line}});
  }
  return {{"kind", shown.kind}, {"about", shown.about}, {"numbers", std::move(numbers)}};
}

void print_shown(tui::Console& console, const std::string& name, const LibraryEntry& shown) {
  console.print(console.styled(fmt::format("{} {}", shown.kind, name), tui::Style::bold) + ": " +
                shown.about + "\n\n");
  DataTable table = text_table({{"number", Align::left},
                                {"value", Align::left},
                                {"kind", Align::left},
                                {"source", Align::left}});
  for (const spec::Provenance& number : shown.numbers) {
    table.add({number.key, number.value, std::string(spec::enum_name(number.kind)), number.cite});
  }
  console.print(tui::table_text(table, console) + "\n");
}

Json study_json(const spec::StudyPlan& study) {
  Json jobs = Json::array();
  for (const spec::StudyJob& entry : study.jobs)
    jobs.push_back(job_json(entry));
  return {{"kind", "study"},
          {"about", study.title},
          {"details", study.about},
          {"jobs", std::move(jobs)}};
}

void print_study(tui::Console& console, const spec::StudyPlan& study) {
  console.print(console.styled("study " + study.name, tui::Style::bold) + ": " + study.title +
                "\n" + tui::wrap(study.about, console.abilities().width.value_or(100)) + "\n\n");
  DataTable table = text_table({{"job", Align::left},
                                {"model", Align::left},
                                {"machines", Align::left},
                                {"layout", Align::left},
                                {"variant", Align::left},
                                {"mbs"},
                                {"problem", Align::left}});
  for (const spec::StudyJob& entry : study.jobs) {
    const auto problem =
        std::find_if(entry.diagnoses.begin(), entry.diagnoses.end(),
                     [](const auto& d) { return d.severity == spec::Diagnosis::Severity::error; });
    table.add({entry.job.name, entry.job.model.name,
               fmt::format("{} x {}", entry.job.cluster.num_nodes, entry.job.cluster.name),
               report::configuration_label(entry.job), report::variant_label(entry.job),
               std::to_string(entry.job.plan.micro_batch_size),
               problem == entry.diagnoses.end() ? "" : problem->what});
  }
  console.print(tui::table_text(table, console));
}

}  // namespace triplepoint::study
