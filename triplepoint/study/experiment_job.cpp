// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/experiment_job.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/text.h"

#include "triplepoint/spec/library.h"

#include "triplepoint/formats/import.h"
#include "triplepoint/metrics/trace/collective_match.h"
#include "triplepoint/report/figures/paper_figures.h"
#include "triplepoint/study/recorded_job.h"
#include "triplepoint/telemetry/upstream/artifact.h"

namespace triplepoint::study {
namespace {

constexpr const char* logger_file = "hparams.yaml";

bool is_configuration(const Path& file) {
  const auto text = read_file(file);
  return text && formats::recognize(*text) == formats::FileKind::nemo_yaml;
}

/// The best first.
std::vector<Path> configurations_in(const Path& folder) {
  std::vector<Path> files;
  std::error_code problem, ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, problem)) {
    const Path ending = entry.path().extension();
    if ((ending == ".yaml" || ending == ".yml") && entry.is_regular_file(ignored) &&
        is_configuration(entry.path()))
      files.push_back(entry.path());
  }
  const std::string own = folder.filename().string();
  const auto order = [&](const Path& file) {  // the logger's has no nodes
    return std::tuple(file.filename() == logger_file, file.stem().string() != own);
  };
  std::sort(files.begin(), files.end(), [&](const Path& a, const Path& b) {
    if (order(a) != order(b)) return order(a) < order(b);
    return natural_less(a.filename().string(), b.filename().string());
  });
  return files;
}

}  // namespace

int64_t ranks_of(const run::Run& run) {
  return std::max({static_cast<int64_t>(metrics::job_ranks_of(run)),
                   static_cast<int64_t>(run.devices.size()),
                   static_cast<int64_t>(run.timeline.num_ranks)});
}

Result<void> require_ranks(const std::string& source, const spec::Job& job, int64_t ranks) {
  if (ranks <= job.world_size()) return {};
  return error(fmt::format("{}: a job of {} GPUs, but the recording is of {}", source,
                           job.world_size(), ranks));
}

namespace {

/// What the recording tells of the machine.
formats::ImportHints hints_of(const run::Run& run) {
  formats::ImportHints hints;
  int64_t per_node = 0;
  for (const run::Device& device : run.devices)
    per_node = std::max<int64_t>(per_node, device.local + 1);
  const int64_t ranks = ranks_of(run);
  if (ranks == 0) return hints;
  if (per_node == 0) per_node = std::min<int64_t>(ranks, telemetry::usual_gpus_per_node);
  hints.num_nodes = (ranks + per_node - 1) / per_node;
  hints.gpus_per_node = per_node;
  return hints;
}

/// The file and its folders, nearest first: the sweep's GPU counts, not that of a disk's name, and
/// wherever the command runs.
std::string place_of(const Path& file) {
  std::string place;
  for (Path left = absolute_path(file).lexically_normal(); left.has_relative_path();
       left = left.parent_path())
    place += left.filename().string() + "/";
  return place;
}

Result<spec::Job> read_job(const spec::Library& library, const Path& file, const run::Run& run) {
  const bool says_nodes = file.filename() != logger_file;
  formats::ImportHints hints = says_nodes ? formats::ImportHints() : hints_of(run);
  hints.place = place_of(file);
  formats::Imported imported = TPT_TRY(formats::import_job(library, file, std::move(hints)));
  for (const spec::Diagnosis& diagnosis : imported.diagnoses)
    if (diagnosis.severity == spec::Diagnosis::Severity::error) return error(diagnosis.what);
  spec::Job& job = imported.job;
  TPT_TRY(require_ranks(file.string(), job, ranks_of(run)));
  for (std::size_t i = 0; i < imported.of_file; ++i)
    job.notes.push_back(imported.diagnoses[i].what);
  job.name = run.manifest.name;
  return std::move(job);
}

std::string words_of(const report::PaperJob& job) {
  return fmt::format("{} {} with microbatch {}", report::model_and_task(job), job.layout,
                     job.microbatch);
}

/// What the folder's name says where that is another job; empty where it agrees or says nothing.
std::string other_job_by_name(const Path& folder, const spec::Job& job) {
  run::Run named, configured;
  named.devices.resize(static_cast<std::size_t>(job.world_size()));
  configured.manifest.job = job;
  const std::string name = folder.filename().string();
  const report::PaperJob by_name = report::paper_job(named, {}, name, folder);
  if (by_name.model.empty()) return {};
  const std::string said = words_of(by_name);
  return said == words_of(report::paper_job(configured, {}, name)) ? std::string() : said;
}

}  // namespace

std::optional<Result<spec::Job>> configured_job(const spec::Library& library, const Path& folder,
                                                const run::Run& run) {
  const std::vector<Path> files = configurations_in(folder);
  if (files.empty()) return std::nullopt;
  Result<spec::Job> job = read_job(library, files.front(), run);
  if (!job) return job;
  std::string note = "the job is that of " + files.front().filename().string();
  std::vector<std::string> others;
  for (auto file = files.begin() + 1; file != files.end(); ++file)
    others.push_back(file->filename().string());
  if (!others.empty()) note += fmt::format("; {} left aside", fmt::join(others, ", "));
  if (const std::string other = other_job_by_name(folder, *job); !other.empty())
    note += fmt::format("; the folder's name says {}", other);
  job->notes.insert(job->notes.begin(), std::move(note));
  return job;
}

void join_job(run::Run& run, const Path& folder) {
  const Result<spec::Library> library = spec::require_library();
  if (!library) return;  // what needs the job asks for the library, and says so
  const auto job = configured_job(*library, folder, run);
  if (!job) return;
  run.manifest.notes.push_back(*job ? (*job)->notes.front()
                                    : "the job is not known: " + job->error().what);
  if (*job) describe_with_job(run, **job);
}

}  // namespace triplepoint::study
