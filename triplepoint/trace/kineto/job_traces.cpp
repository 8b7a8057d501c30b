// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <utility>

#include "triplepoint/base/text.h"

#include "triplepoint/trace/kineto/kineto.h"

namespace triplepoint::trace {
namespace {

constexpr std::string_view ending = "_kineto";

std::optional<int64_t> job_id(const Path& folder) {
  const std::string name = folder.filename().string();
  if (!name.ends_with(ending)) return std::nullopt;
  return whole_number(std::string_view(name).substr(0, name.size() - ending.size()));
}

bool has_files(const Path& folder) {
  const auto files = list_files(folder, "");
  return files && !files->empty();
}

}  // namespace

std::optional<JobTraces> newest_job_traces(const Path& folder) {
  std::vector<std::pair<int64_t, Path>> jobs;
  std::error_code problem, ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, problem))
    if (const auto id = job_id(entry.path()); id && entry.is_directory(ignored))
      jobs.emplace_back(*id, entry.path());
  std::ranges::sort(jobs);
  const auto newest = std::find_if(jobs.rbegin(), jobs.rend(),
                                   [](const auto& job) { return has_files(job.second); });
  if (newest == jobs.rend()) return std::nullopt;
  JobTraces traces{newest->second, {}};
  for (const auto& [id, path] : jobs)
    if (path != traces.newest) traces.older.push_back(path.filename().string());
  return traces;
}

}  // namespace triplepoint::trace
