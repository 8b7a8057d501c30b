// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/job_script.h"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "triplepoint/base/text.h"

namespace triplepoint::formats {
namespace {

/// An option of sbatch and its value, from "--nodes=4", "--nodes 4", "-N 4" or "-N4".
struct SlurmOption {
  std::string_view name, value;
};

SlurmOption split_option(std::string_view text) {
  text = trimmed(text);
  if (!text.starts_with("--") && text.size() > 2 && text[2] != ' ' && text[2] != '=')
    return {text.substr(0, 2), trimmed(text.substr(2))};
  const std::size_t end = std::min(text.find_first_of("= \t"), text.size());
  std::string_view value = end < text.size() ? text.substr(end + 1) : std::string_view();
  value = trimmed(value.substr(0, value.find(" #")));
  return {text.substr(0, end), value};
}

/// "gpu:8", "gpu:h100:8", "h100:8" and "8".
void read_gres(std::string_view value, JobScript& script) {
  std::vector<std::string> parts = split(value, ':');
  if (!parts.empty() && parts.front() == "gpu") parts.erase(parts.begin());
  if (parts.empty()) return;
  if (const auto count = whole_number(parts.back())) {
    script.gpus_per_node = count;
    parts.pop_back();
  }
  if (!parts.empty() && !parts.front().empty()) script.gpu_type = parts.front();
}

void read_option(const SlurmOption& option, JobScript& script) {
  if (option.name == "--nodes" || option.name == "-N")
    script.num_nodes = whole_number(option.value);
  else if (option.name == "--constraint" || option.name == "-C")
    script.gpu_type = std::string(unquoted(option.value));
  else if (option.name == "--gpus-per-node" || option.name == "--gres")
    read_gres(option.value, script);
  else if (option.name == "--ntasks-per-node" && !script.gpus_per_node)
    script.gpus_per_node = whole_number(option.value);
}

/// The last .py that is started with -u or by itself: helpers in $(...) come first.
void read_entry(std::string_view line, JobScript& script) {
  std::string_view rest = line;
  while (!rest.empty()) {
    const std::size_t dot = rest.find(".py");
    if (dot == rest.npos) return;
    const std::size_t begin = rest.find_last_of(" /\t\"'=(", dot);
    const std::size_t first = begin == rest.npos ? 0 : begin + 1;
    const std::string_view after = rest.substr(dot + 3);
    if (after.empty() || after.front() == ' ' || after.front() == '"' || after.front() == '\\')
      script.entry = std::string(rest.substr(first, dot + 3 - first));
    rest = after;
  }
}

}  // namespace

std::optional<JobScript> read_job_script(std::string_view text, std::string path) {
  JobScript script;
  script.path = std::move(path);
  bool is_slurm = false;
  for (std::string_view line : lines_of(text)) {
    line = trimmed(line);
    if (line.starts_with("#SBATCH")) {
      is_slurm = true;
      read_option(split_option(line.substr(7)), script);
    } else if (!line.starts_with('#')) {
      read_entry(line, script);
    }
  }
  return is_slurm ? std::optional(script) : std::nullopt;
}

Result<std::optional<JobScript>> job_script_beside(const Path& configuration) {
  const Path folder = configuration.has_parent_path() ? configuration.parent_path() : Path(".");
  Path name = configuration.stem();
  name += ".sh";
  std::vector<Path> candidates{folder / name};
  std::error_code ignored;  // an unreadable folder beside the file is no reason to refuse it
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    if (entry.is_directory(ignored)) candidates.push_back(entry.path() / name);
  std::sort(candidates.begin() + 1, candidates.end());
  for (const Path& candidate : candidates) {
    if (!std::filesystem::is_regular_file(candidate, ignored)) continue;
    const std::string text = TPT_TRY(read_file(candidate));
    if (auto script = read_job_script(text, candidate.string())) return script;
  }
  return std::optional<JobScript>();
}

}  // namespace triplepoint::formats
