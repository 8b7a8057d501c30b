// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/train_files.h"

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

#include "triplepoint/run/merge.h"
#include "triplepoint/run/store.h"

#include "triplepoint/study/recorded_job.h"
#include "triplepoint/study/train_launch.h"

namespace triplepoint::study {

Result<JobFile> JobFile::write(const Path& folder, const std::string& text) {
  std::string name = (folder / "triplepoint-job-XXXXXX.toml").string();
  constexpr int suffix = 5;  // ".toml"
  const int file = mkstemps(name.data(), suffix);
  if (file < 0)
    return error(fmt::format("cannot write a job into {} (it is full, or not ours); set TMPDIR",
                             folder.string()));
  close(file);
  JobFile job{name};
  TPT_TRY(write_file_atomically(name, text));
  return job;
}

JobFile::~JobFile() {
  std::error_code ignored;
  if (path_.empty()) return;
  std::filesystem::remove(path_, ignored);
  std::filesystem::remove(report(), ignored);
}

Path JobFile::report() const {
  Path report = path_;
  return report.replace_extension(".json");
}

Result<void> add_report_of_trainer(const Path& recording, const Path& report) {
  const std::string text = TPT_TRY(read_file(report));
  run::Run run = TPT_TRY(run::load(recording.string()));
  TPT_TRY(add_trainer_report(run, text));
  TPT_TRY(run::save(run, recording.string()));
  return {};
}

Result<void> merge_nodes(const Path& output) {
  const std::vector<Path> files = TPT_TRY(recordings_of_nodes(output));
  if (files.empty()) return {};  // one node: it has the name already
  std::vector<run::Run> recordings;
  recordings.reserve(files.size());
  for (const Path& file : files)
    recordings.push_back(TPT_TRY(run::load(file.string())));
  const run::Merged merged = TPT_TRY(run::merge(std::move(recordings)));
  TPT_TRY(run::save(merged.run, output.string()));
  std::error_code ignored;
  for (const Path& file : files)
    std::filesystem::remove(file, ignored);
  return {};
}

}  // namespace triplepoint::study
