// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/runner.h"

#include <algorithm>
#include <filesystem>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/installation.h"
#include "triplepoint/base/parallel.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/text.h"

#include "triplepoint/answers/results.h"
#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/findings/study_document.h"
#include "triplepoint/report/pages/study_page.h"
#include "triplepoint/store/store.h"

namespace triplepoint::app {
namespace {

std::string file_name(std::string_view job_name) {
  std::string name;
  for (char c : job_name)
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.' ||
                    c == '+'
                ? c
                : '_';
  return name + ".run";
}

std::optional<run::Run> earlier_run(const StudyItem& item) {
  if (!path_exists(item.file)) return std::nullopt;
  Result<run::Run> run = run::load(item.file.string());
  if (!run) return std::nullopt;  // half a file of another program: simulated again
  if (run->manifest.job_digest != item.digest) return std::nullopt;
  return *std::move(run);
}

std::string& cell_named(std::vector<std::string>& cells, std::string_view name) {
  const std::vector<const answers::Quantity*> columns = answers::results_columns();
  const auto column = std::ranges::find(columns, name, &answers::Quantity::name);
  TPT_EXPECT(column != columns.end());
  return cells[as_size(column - columns.begin())];
}

/// The job as one whose measurement ended so: a row like that of an invalid job.
void take_failure(StudyItem& item, const std::string& what) {
  item.failed = *item.job;
  item.failed->diagnoses.push_back({.code = spec::DiagnosisCode::inconsistent,
                                    .severity = spec::Diagnosis::Severity::error,
                                    .what = what});
  item.job = &*item.failed;
  take_diagnoses(item);
  item.json["verdict"] = "failed";
  cell_named(item.cells, "verdict") = "failed";
  item.row->origin = run::Origin::measured;
}

/// What a job's measurement came to: where it failed, a run without steps that says why; nothing if
/// it was stopped.
std::optional<run::Run> measure(const StudyItem& item, const StudyWorld& world) {
  Result<std::optional<run::Run>> run = world.measure(item.job->job, item.file.stem().string());
  if (run) return *std::move(run);
  run::Run failed;
  failed.manifest.name = item.job->job.name;
  failed.manifest.job = item.job->job;
  failed.manifest.origin = run::Origin::measured;
  failed.manifest.failure = run.error().what;
  return failed;
}

/// Takes what there is to say of a job without running it; whether there is.
bool take_what_is_there(StudyItem& item, const StudyWorld& world) {
  if (spec::has_errors(item.job->diagnoses)) {
    take_diagnoses(item);
  } else if (const auto earlier = earlier_run(item);
             earlier && !(world.retry_failures && earlier->manifest.failure)) {
    item.reused = true;
    take_run(item, *earlier);
  }
  return item.row.has_value();
}

/// Simulates one job, or takes its earlier run. What cannot be stored is the item's problem.
void run_item(StudyItem& item, const StudyWorld& world) {
  if (take_what_is_there(item, world)) return;
  std::optional<run::Run> run =
      world.measure ? measure(item, world) : std::optional(world.simulate(item.job->job));
  if (!run) return;
  run->manifest.job_digest = item.digest;
  if (const auto saved = run::save(*run, item.file.string()); !saved) {
    item.problem = saved.error().what;
    return;
  }
  std::error_code ignored;  // the page of an earlier run with this name shows another one
  std::filesystem::remove(page_of(item.file), ignored);
  take_run(item, *run);
}

std::vector<StudyItem> items_of(const spec::StudyPlan& plan, const Path& folder,
                                const std::string& program) {
  std::vector<StudyItem> items;
  std::vector<std::string> used;
  for (const spec::StudyJob& job : plan.jobs) {
    std::string name = file_name(job.job.name);
    for (int i = 2; holds(used, name); ++i)
      name = file_name(fmt::format("{}_{}", job.job.name, i));
    used.push_back(name);
    StudyItem item;
    item.job = &job;
    item.file = folder / "runs" / name;
    item.digest = digest(program + spec::write_job(job.job));
    item.suite = plan.suite.get();
    items.push_back(std::move(item));
  }
  return items;
}

/// What is needed to make the report again from the folder alone.
Json plan_json(const spec::StudyPlan& plan, const std::vector<StudyItem>& items) {
  Json jobs = Json::array();
  for (const StudyItem& item : items) {
    Json job = {{"name", item.job->job.name},
                {"run", item.file.filename().string()},
                {"diagnoses", as_json(item.job->diagnoses)}};
    if (spec::has_errors(item.job->diagnoses)) job["job"] = spec::write_job(item.job->job);
    jobs.push_back(std::move(job));
  }
  return {{"study", plan.name},
          {"title", plan.title},
          {"about", plan.about},
          {"suite", plan.suite ? plan.suite->text : ""},
          {"jobs", std::move(jobs)}};
}

/// What a prediction lacks does not keep a job from being measured.
spec::StudyPlan as_measured(spec::StudyPlan plan) {
  for (spec::StudyJob& job : plan.jobs)
    std::erase_if(job.diagnoses, [](const spec::Diagnosis& diagnosis) {
      return diagnosis.code == spec::DiagnosisCode::unsupported;
    });
  return plan;
}

std::string as_text(const std::vector<spec::Diagnosis>& diagnoses) {
  return joined(mapped(diagnoses, &spec::Diagnosis::what), "; ");
}

}  // namespace

std::string program_digest(const spec::Library& library) {
  std::string all = program_version();
  if (const auto program = read_file("/proc/self/exe")) all += digest(*program);
  if (const auto files = list_files(library.root, "")) {
    for (const Path& file : *files)
      if (const auto text = read_file(file)) all += file.string() + digest(*text);
  }
  return digest(all);
}

Result<StudyResults> run_study(const spec::StudyPlan& wanted, const Path& folder, int threads,
                               const StudyWorld& world) {
  TPT_TRY(make_folder(folder / "runs"));
  const spec::StudyPlan plan = world.measure ? as_measured(wanted) : wanted;
  std::vector<StudyItem> items = items_of(plan, folder, world.program_digest);
  TPT_TRY(
      write_file_atomically(folder / study_plan_file, json_text(plan_json(plan, items)) + "\n"));
  std::stop_source stop;
  parallel_for(
      items.size(), threads,
      [&](std::size_t i) {
        if (world.watch.stopped()) stop.request_stop();
        if (stop.stop_requested()) return;
        run_item(items[i], world);
        if (!items[i].problem.empty())
          stop.request_stop();  // a full disk will not take the next run either
        world.watch.advance();
      },
      stop.get_token());
  TPT_TRY(first_problem(items));
  return collect(items, plan);
}

Result<void> write_results(const StudyResults& results, const Path& folder) {
  TPT_TRY(write_file_atomically(folder / results_csv_file, results.csv));
  TPT_TRY(write_file_atomically(folder / results_json_file, results.json));
  TPT_TRY(write_file_atomically(folder / "report.html", report::study_page(results.study)));
  return {};
}

Path page_of(Path run_file) {
  return run_file.replace_extension(".html");
}

void link_run_pages(StudyResults& results, const Path& folder) {
  for (std::size_t i = 0; i < results.study.rows.size(); ++i) {
    if (results.run_files[i].empty()) continue;
    const Path page = page_of(results.run_files[i]);
    results.study.rows[i].page =
        path_exists(page) ? page.lexically_relative(folder).generic_string() : std::string();
  }
}

void take_run(StudyItem& item, const run::Run& run) {
  if (run.manifest.failure) return take_failure(item, *run.manifest.failure);
  const metrics::Metrics metrics = metrics::measure(run);
  item.json = answers::results_json(run, metrics);
  item.json["name"] = item.job->job.name;
  item.json["diagnoses"] = as_json(item.job->diagnoses);
  item.cells = answers::results_row(run, metrics);
  cell_named(item.cells, "name") = item.job->job.name;
  item.row = report::result_row(*item.job, run, metrics);
  if (item.suite != nullptr) item.scored = metrics::score_run(*item.suite, item.job->job.name, run);
}

void take_diagnoses(StudyItem& item) {
  run::Run nothing;
  nothing.manifest.job = item.job->job;
  nothing.manifest.name = item.job->job.name;
  nothing.manifest.fits_memory = false;
  item.json = answers::results_json(nothing, {});
  item.json["verdict"] = "invalid";
  item.json["diagnoses"] = as_json(item.job->diagnoses);
  item.cells = answers::results_row(nothing, {});
  cell_named(item.cells, "verdict") = "invalid";
  item.row = report::invalid_row(*item.job);
}

Result<void> first_problem(const std::vector<StudyItem>& items) {
  for (const StudyItem& item : items)
    if (!item.problem.empty()) return error(item.problem);
  return {};
}

StudyResults collect(std::vector<StudyItem>& items, const spec::StudyPlan& plan) {
  StudyResults results;
  results.study = {plan.name, plan.title, plan.about, program_version(), {}};
  std::vector<metrics::ScoredRun> scored;
  Json jobs = Json::array();
  std::vector<std::string> columns = mapped<std::string>(
      answers::results_columns(), [](const answers::Quantity* column) { return column->name; });
  columns.emplace_back("diagnoses");
  CsvWriter csv(columns);
  for (StudyItem& item : items) {
    if (!item.row) {
      ++results.left;
      continue;
    }
    results.reused += item.reused ? 1 : 0;
    results.failed += item.failed ? 1 : 0;
    for (const std::string& cell : item.cells)
      csv.cell(cell);
    csv.cell(as_text(item.job->diagnoses));
    csv.end_row();
    jobs.push_back(std::move(item.json));
    if (item.scored) scored.push_back(*std::move(item.scored));
    const bool has_run = item.row->verdict != report::Verdict::invalid;
    results.run_files.push_back(has_run ? item.file : Path());
    results.study.rows.push_back(*std::move(item.row));
  }
  report::label_conditions(results.study);
  results.csv = csv.text();
  Json json = {{"schema", results_schema},
               {"study", plan.name},
               {"title", plan.title},
               {"producer", program_version()}};
  if (plan.suite) {
    results.study.score = metrics::score_suite(*plan.suite, scored);
    json["score"] = metrics::score_json(*results.study.score);
    json["score"]["energy_scope"] = "gpu";  // as the references are
  }
  json.update(report::conclusions_json(results.study));
  json["jobs"] = std::move(jobs);
  results.json = json_text(json) + "\n";
  return results;
}

}  // namespace triplepoint::app
