// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/read_job.h"

#include <filesystem>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/suggest.h"

#include "triplepoint/run/store.h"

#include "triplepoint/formats/import.h"

namespace triplepoint::formats {
namespace {

Result<spec::Job> job_of_run(const std::string& path) {
  run::Run run = TPT_TRY(run::load(path));
  if (!run.manifest.job) {
    return error(
        fmt::format("{}: the run has no job (it was recorded from a command); give the "
                    "job's own file",
                    path));
  }
  return *std::move(run.manifest.job);
}

Result<spec::Job> job_of_study(const spec::Library& library, const std::string& study_name,
                               const std::string& job_name) {
  const spec::StudyPlan study = TPT_TRY(spec::load_study(library, study_name));
  std::vector<std::string> names;
  for (const spec::StudyJob& entry : study.jobs) {
    if (entry.job.name == job_name) return entry.job;
    names.push_back(entry.job.name);
  }
  const auto close = closest_word(job_name, names);
  return error(fmt::format("study {0} has no job \"{1}\"; {2}", study_name, job_name,
                           close ? fmt::format("did you mean \"{}\"?", *close)
                                 : fmt::format("triplepoint show {} lists them", study_name)));
}

Result<spec::Job> model_only(const std::string& text, const std::string& path) {
  formats::ImportedModel imported = TPT_TRY(formats::import_hf_config(text, path));
  for (const spec::Diagnosis& diagnosis : imported.diagnoses) {
    if (diagnosis.severity == spec::Diagnosis::Severity::error) return error(diagnosis.what);
  }
  spec::Job job;
  job.model = std::move(imported.model);
  job.notes = std::move(imported.assumed);
  job.origin = path;
  job.plan.global_batch_size = 0;  // not said
  return job;
}

Result<spec::Job> imported_job(const spec::Library& library, const std::string& path) {
  formats::Imported imported = TPT_TRY(formats::import_job(library, path, {}));
  for (const spec::Diagnosis& diagnosis : imported.diagnoses) {
    // What flags may still put right is judged when the job is complete.
    const bool of_file = diagnosis.code == spec::DiagnosisCode::unsupported;
    if (of_file && diagnosis.severity == spec::Diagnosis::Severity::error)
      return error(diagnosis.what);
  }
  return std::move(imported.job);
}

}  // namespace

Result<spec::Job> read_job(const spec::Library& library, const std::string& what) {
  const std::size_t colon = what.rfind(':');
  std::error_code ignored;
  if (colon != std::string::npos && !std::filesystem::exists(what, ignored)) {
    return job_of_study(library, what.substr(0, colon), what.substr(colon + 1));
  }
  if (what.ends_with(".toml")) return spec::load_job(library, what);
  if (what.ends_with(".run")) return job_of_run(what);
  const std::string text = TPT_TRY(read_file(what));
  if (text.empty())
    return error(fmt::format(
        "{}: the file is empty (a job was expected); see triplepoint simulate --help", what));
  if (formats::recognize(text) == formats::FileKind::hf_config) return model_only(text, what);
  return imported_job(library, what);
}

}  // namespace triplepoint::formats
