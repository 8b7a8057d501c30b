// SPDX-License-Identifier: Apache-2.0
// A study that is there already, read from its folder.
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "triplepoint/base/parallel.h"

#include "triplepoint/run/store.h"

#include "triplepoint/study/item.h"
#include "triplepoint/study/run_pages.h"

namespace triplepoint::study {
namespace {

Result<std::vector<spec::Diagnosis>> diagnoses_from(const Json& list) {
  std::vector<spec::Diagnosis> diagnoses;
  for (const Json& entry : list) {
    spec::Diagnosis diagnosis;
    const std::string code = entry.value("code", "");
    if (const auto known = spec::enum_from_name<spec::DiagnosisCode>(code)) diagnosis.code = *known;
    diagnosis.severity = entry.value("severity", "") == "warning"
                             ? spec::Diagnosis::Severity::warning
                             : spec::Diagnosis::Severity::error;
    diagnosis.what = entry.value("what", "");
    diagnoses.push_back(std::move(diagnosis));
  }
  return diagnoses;
}

/// study.json back as a plan; jobs that were simulated get their job from their run.
Result<spec::StudyPlan> read_plan(const spec::Library& library, const Path& file,
                                  std::vector<Path>& runs, std::set<std::string>& failed) {
  const std::string text = TPT_TRY(read_file(file));
  const Json json = TPT_TRY(parse_json(text, file.string()));
  spec::StudyPlan plan;
  try {
    plan = {json.value("study", ""), json.value("title", ""), json.value("about", ""), {}};
    for (const Json& entry : json.at("jobs")) {
      spec::StudyJob job;
      if (entry.contains("job"))
        job.job =
            TPT_TRY(spec::parse_job(library, entry.at("job").get<std::string>(), file.string()));
      job.job.name = entry.value("name", "");
      if (entry.value("failed", false)) failed.insert(job.job.name);
      job.diagnoses = TPT_TRY(diagnoses_from(entry.at("diagnoses")));
      plan.jobs.push_back(std::move(job));
      runs.push_back(file.parent_path() / "runs" / Path(entry.value("run", "")).filename());
    }
  } catch (const Json::exception& wrong) {
    return error(fmt::format("{}: not a study of ours ({}); run triplepoint characterize again",
                             file.string(), wrong.what()));
  }
  return plan;
}

/// A folder of runs without a study file.
Result<spec::StudyPlan> plan_of_runs(const Path& folder, std::vector<Path>& runs) {
  runs = TPT_TRY(list_files(folder, ".run"));
  if (runs.empty())
    return error(
        fmt::format("{}: no study and no .run file in it (a report needs either); make them with "
                    "triplepoint characterize STUDY -o {}",
                    folder.string(), folder.string()));
  spec::StudyPlan plan{
      folder.string(), fmt::format("Runs in {}", folder.filename().string()), "", {}};
  for (const Path& run : runs) {
    spec::StudyJob job;
    job.job.name = run.stem().string();
    plan.jobs.push_back(std::move(job));
  }
  return plan;
}

}  // namespace

Result<StudyResults> load_results(const spec::Library& library, const Path& folder, int threads) {
  std::vector<Path> runs;
  std::set<std::string> failed;
  std::error_code ignored;
  const bool ours = std::filesystem::exists(folder / study_plan_file, ignored);
  spec::StudyPlan plan = ours ? TPT_TRY(read_plan(library, folder / study_plan_file, runs, failed))
                              : TPT_TRY(plan_of_runs(folder, runs));
  std::vector<StudyItem> items(plan.jobs.size());
  parallel_for(items.size(), threads, [&](std::size_t i) {
    StudyItem& item = items[i];
    item.job = &plan.jobs[i];
    item.file = runs[i];
    if (spec::has_errors(plan.jobs[i].diagnoses)) {
      take_diagnoses(item);
      if (failed.contains(item.job->job.name)) mark_failed(item);
      return;
    }
    if (!std::filesystem::exists(runs[i])) return;  // not simulated yet
    const Result<run::Run> run = run::load(runs[i].string());
    if (!run) {
      item.problem = run.error().what;
      return;
    }
    if (run->manifest.job) {
      std::string name = std::move(plan.jobs[i].job.name);
      plan.jobs[i].job = *run->manifest.job;
      plan.jobs[i].job.name = std::move(name);
    }
    take_results(item, *run);
  });
  TPT_TRY(first_problem(items));
  StudyResults results = collect(items, plan);
  link_run_pages(results, folder);
  return results;
}

}  // namespace triplepoint::study
