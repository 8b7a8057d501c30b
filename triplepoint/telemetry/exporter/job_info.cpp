// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/exporter/job_info.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

namespace triplepoint::telemetry {
namespace {

bool is_label(std::string_view name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto any = [&](char c) { return letter(c) || (c >= '0' && c <= '9'); };
  return !name.empty() && letter(name.front()) && !name.starts_with("__") &&
         std::all_of(name.begin(), name.end(), any);
}

Result<std::pair<std::string, std::string>> parse_label(std::string_view text) {
  const std::size_t equal = text.find('=');
  if (equal == std::string_view::npos)
    return error(
        fmt::format("\"{}\" is no label of a job (there is no = in it); write "
                    "job=4711,user=ann",
                    text));
  const std::string_view name = text.substr(0, equal);
  if (!is_label(name) || name == "host")
    return error(
        fmt::format("\"{}\" cannot be a label (letters, digits and _ can, host is taken); "
                    "try job, user, rank",
                    name));
  return std::pair(std::string(name), std::string(text.substr(equal + 1)));
}

}  // namespace

JobLabels job_of_environment(const Variable& variable) {
  const LaunchEnvironment launch = read_launch_environment(variable);
  JobLabels labels;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) labels.emplace_back(name, value);
  };
  const auto add_number = [&](const char* name, const std::optional<int32_t>& value) {
    if (value) labels.emplace_back(name, fmt::format("{}", *value));
  };
  add("job", launch.job);
  add("launcher", launch.launcher);
  add_number("rank", launch.rank);
  add_number("local_rank", launch.local_rank);
  add_number("world_size", launch.world_size);
  constexpr std::array slurm = {
      std::pair("name", "SLURM_JOB_NAME"), std::pair("user", "SLURM_JOB_USER"),
      std::pair("account", "SLURM_JOB_ACCOUNT"), std::pair("partition", "SLURM_JOB_PARTITION")};
  for (const auto& [name, source] : slurm)
    add(name, variable(source).value_or(""));
  return labels;
}

Result<JobLabels> parse_job(std::string_view text) {
  JobLabels labels;
  while (true) {
    const std::size_t comma = text.find(',');
    auto label = TPT_TRY(parse_label(trimmed(text.substr(0, comma))));
    for (const auto& [name, value] : labels)
      if (name == label.first)
        return error(
            fmt::format("the label {} is given twice (a series has each once); leave one "
                        "out",
                        name));
    labels.push_back(std::move(label));
    if (comma == std::string_view::npos) return labels;
    text.remove_prefix(comma + 1);
  }
}

Result<std::vector<JobLabels>> read_job_file(const Path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::vector<JobLabels>();
  const std::string text = TPT_TRY(read_file(path));
  std::vector<JobLabels> jobs;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = trimmed(std::string_view(text).substr(begin, end - begin));
    if (!line.empty() && line.front() != '#') jobs.push_back(TPT_TRY(parse_job(line)));
    begin = end + 1;
  }
  return jobs;
}

}  // namespace triplepoint::telemetry
