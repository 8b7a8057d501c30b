// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/import.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "triplepoint/base/text.h"

#include "triplepoint/store/store.h"

namespace triplepoint::formats {
namespace {

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

/// Exported, or in front of a command; the last one counts.
void read_connections(std::string_view line, JobScript& script) {
  constexpr std::string_view name = "CUDA_DEVICE_MAX_CONNECTIONS=";
  const std::size_t at = line.find(name);
  if (at == line.npos || (at > 0 && line[at - 1] != ' ')) return;
  const std::string_view value = line.substr(at + name.size());
  if (const auto count = whole_number(unquoted(value.substr(0, value.find_first_of(" ;")))))
    script.cuda_device_max_connections = count;
}

/// What schedulers read of a script: lines of directives, up to the first command.
class DirectiveReader {
 public:
  explicit DirectiveReader(JobScript& script) : script_(script) {}

  /// Whether the line is one of directives.
  bool read(std::string_view line, int number) {
    constexpr std::array<std::string_view, 5> others{"#PJM ", "#$ -l", "#OAR ", "#FLUX", "#MSUB"};
    const std::string place = fmt::format("{}:{}: ", script_.path, number);
    const bool slurm = line.starts_with("#SBATCH"), pbs = line.starts_with("#PBS");
    if ((slurm || pbs) && command_ > 0) {
      if (!is_late_)
        script_.remarks.push_back(
            fmt::format("{}{} reads no lines behind the first command, that of line {}", place,
                        slurm ? "sbatch" : "qsub", command_));
      is_late_ = true;
    } else if (slurm) {
      const std::vector<std::string> words = directive_words(line.substr(7));
      is_het_ = is_het_ || (!words.empty() && (words[0] == "hetjob" || words[0] == "packjob"));
      for (const std::string& word : words)
        words_.push_back({word, place});
    } else if (pbs) {
      read_pbs(line.substr(4), place, script_);
    } else if (line.starts_with("#BSUB")) {
      read_bsub(line.substr(5), place, script_);
    } else if (std::ranges::any_of(others, [&](auto head) { return line.starts_with(head); })) {
      script_.remarks.push_back(fmt::format("{}this scheduler's lines are not read", place));
    } else {
      const bool hands = contains(line, "<<") && contains(line, "sbatch");  // the text below it
      if (hands) command_ = 0;
      if (!hands && command_ == 0 && !line.starts_with('#') && !trimmed(line).empty())
        command_ = number;
      return false;
    }
    script_.is_slurm = script_.is_slurm || slurm;
    return true;
  }

  void settle() {
    if (!is_het_) return read_options(words_, "sbatch", script_);
    script_.problems.push_back(
        {fmt::format("{}: a heterogeneous job (hetjob), whose parts ask for separate nodes, is "
                     "not modelled; leave one part in a copy",
                     script_.path),
         true, true});
  }

 private:
  JobScript& script_;
  std::vector<OptionWord> words_;  // of all lines: sbatch reads them as one command
  int command_ = 0;
  bool is_het_ = false, is_late_ = false;
};

}  // namespace

std::optional<JobScript> read_job_script(std::string_view text, std::string path) {
  JobScript script;
  script.path = std::move(path);
  DirectiveReader directives(script);
  bool is_batch = false;
  int number = 0;
  for (const std::string_view line : lines_of(text)) {
    if (directives.read(line, ++number)) {
      is_batch = true;
    } else if (!trimmed(line).starts_with('#')) {
      read_entry(trimmed(line), script);
      read_connections(trimmed(line), script);
    }
  }
  directives.settle();
  return is_batch ? std::optional(script) : std::nullopt;
}

std::map<std::string, std::string> variables_of_slurm(const JobScript& script) {
  if (!script.is_slurm) return {};
  std::map<std::string, std::string> all{{"SLURM_JOB_NODELIST", "node0"},
                                         {"SLURM_NODELIST", "node0"}};
  const auto set = [&](std::initializer_list<const char*> names, std::optional<int64_t> value) {
    for (const char* name : names)
      if (value) all[name] = fmt::format("{}", *value);
  };
  set({"SLURM_JOB_ID", "SLURM_JOBID"}, 1);
  set({"SLURM_PROCID", "SLURM_NODEID", "SLURM_LOCALID"}, 0);
  set({"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}, script.num_nodes);
  set({"SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"}, script.gpus_per_node);
  set({"SLURM_NTASKS_PER_NODE"}, script.tasks_per_node);
  set({"SLURM_NTASKS", "SLURM_NPROCS"}, script.num_tasks);
  if (!script.num_nodes) return all;
  if (!script.num_tasks)
    set({"SLURM_NTASKS", "SLURM_NPROCS"}, *script.num_nodes * script.tasks_per_node.value_or(1));
  if (script.tasks_per_node)
    all["SLURM_TASKS_PER_NODE"] = fmt::format("{}(x{})", *script.tasks_per_node, *script.num_nodes);
  return all;
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

namespace {

bool has_line_starting(std::string_view text, std::string_view head) {
  const std::vector<std::string_view> lines = lines_of(text);
  return std::ranges::any_of(lines, [&](std::string_view line) { return line.starts_with(head); });
}

/// Two of the arguments without which Megatron does not start.
bool has_megatron_arguments(std::string_view text) {
  constexpr std::array<std::string_view, 4> needed{"--num-layers", "--hidden-size",
                                                   "--num-attention-heads", "--micro-batch-size"};
  return std::ranges::count_if(needed,
                               [&](std::string_view each) { return contains(text, each); }) >= 2;
}

bool is_hf_config(std::string_view text) {
  return trimmed(text).starts_with('{') &&
         (contains(text, "\"model_type\"") || contains(text, "\"architectures\""));
}

}  // namespace

std::string_view name_of(FileKind kind) {
  constexpr std::array<std::string_view, 6> names{
      "NeMo YAML",     "Megatron arguments",   "Hugging Face config",
      "launch script", "file of another tool", "unknown"};
  return names[as_size(kind)];
}

namespace {

/// The hparams.yaml that NeMo's logger leaves: the model's part of a configuration, as "cfg".
bool is_nemo_hparams(std::string_view text) {
  return has_line_starting(text, "cfg:") && contains(text, "  num_layers:") &&
         contains(text, "  hidden_size:");
}

}  // namespace

FileKind recognize(std::string_view text) {
  if (is_hf_config(text)) return FileKind::hf_config;
  if (!contains(text, "_target_:") && has_line_starting(text, "model:") &&
      has_line_starting(text, "trainer:") && tool_of(text).empty())
    return FileKind::nemo_yaml;
  if (is_nemo_hparams(text)) return FileKind::nemo_yaml;
  if (!text.starts_with("#!") && !tool_of(text).empty()) return FileKind::tool;
  if (has_megatron_arguments(text)) return FileKind::megatron_args;
  const bool shell = text.starts_with("#!") && contains(text.substr(0, text.find('\n')), "sh");
  return shell || has_line_starting(text, "#SBATCH") || has_line_starting(text, "#PBS") ||
                 has_line_starting(text, "#BSUB")
             ? FileKind::job_script
             : FileKind::unknown;
}

namespace {

Result<spec::Job> job_of_run(const std::string& path) {
  run::Run run = TPT_TRY(run::load(path));
  if (!run.manifest.job) {
    return error(
        "{}: the run has no job (it was recorded from a command, or kept the job of "
        "another version, as its notes say); give the job's own file",
        path);
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
  return error("study {0} has no job \"{1}\"; {2}", study_name, job_name,
               close ? fmt::format("did you mean \"{}\"?", *close)
                     : fmt::format("triplepoint show {} lists them", study_name));
}

/// Findings of the file itself: errors end the command, warnings become notes of the job. What
/// flags may still put right is judged when the job is whole.
Result<void> take_findings(Imported& imported) {
  for (std::size_t i = 0; i < imported.of_file; ++i) {
    const spec::Diagnosis& diagnosis = imported.diagnoses[i];
    if (diagnosis.severity == spec::Diagnosis::Severity::error) return error(diagnosis.what);
    imported.job.notes.push_back(diagnosis.what);
  }
  return {};
}

Result<spec::StatedJob> imported_job(Imported imported) {
  TPT_TRY(take_findings(imported));
  return spec::StatedJob{.job = std::move(imported.job),
                         .stated = std::move(imported.stated),
                         .length_from = std::move(imported.length_from),
                         .of_launcher = std::move(imported.of_launcher),
                         .contested = std::move(imported.contested)};
}

}  // namespace

Result<void> refuse_script_words(const ImportHints& hints, const std::string& name) {
  if (!hints.start_a_script()) return {};
  return error(
      "{}: is no launch script, but arguments or variables of one were given; "
      "leave -- ARGS and --env out",
      name);
}

Result<void> apply_hints(const spec::Library& library, const ImportHints& hints,
                         spec::StatedJob& stated) {
  using enum spec::JobSetting;
  TPT_TRY(refuse_script_words(hints, stated.job.origin));
  spec::Job& job = stated.job;
  std::string nodes_from = job.origin;
  bool nodes_of_file = hints.to_file;
  if (hints.cluster) {
    const int64_t before = job.cluster.num_nodes;
    const bool own = spec::is_own_cluster(*hints.cluster);
    job.cluster = TPT_TRY(spec::load_cluster(library, *hints.cluster));
    if (stated.states(nodes)) {
      if (own && !hints.num_nodes)
        spec::contest_nodes(stated, {before, job.origin}, {job.cluster.num_nodes, *hints.cluster});
      job.cluster.num_nodes = before;
    } else if (own) {
      stated.stated.insert(nodes);
      nodes_from = *hints.cluster;
      nodes_of_file = true;
    }
  }
  if (hints.num_nodes) {
    if (stated.states(nodes) && nodes_of_file)
      spec::contest_nodes(stated, {*hints.num_nodes, "--nodes"},
                          {job.cluster.num_nodes, nodes_from});
    job.cluster.num_nodes = *hints.num_nodes;
    stated.stated.insert(nodes);
  }
  if (!hints.stack) return {};
  job.stack = TPT_TRY(spec::load_stack(library, *hints.stack));
  stated.stated.insert(stack);
  return {};
}

Result<spec::StatedJob> read_stated_job(const spec::Library& library, const std::string& what,
                                        const ImportHints& hints) {
  const std::size_t colon = what.rfind(':');
  std::error_code ignored;
  spec::StatedJob stated;
  if (colon != std::string::npos && !std::filesystem::exists(what, ignored))
    stated = spec::fully_stated(
        TPT_TRY(job_of_study(library, what.substr(0, colon), what.substr(colon + 1))));
  else if (what.ends_with(".toml") && tool_of(read_file(what).value_or("")).empty())
    stated = TPT_TRY(spec::load_stated_job(library, what));
  else if (what.ends_with(".run"))
    stated = spec::fully_stated(TPT_TRY(job_of_run(what)));
  else
    return imported_job(TPT_TRY(import_file(library, config_in(what), hints)));
  TPT_TRY(apply_hints(library, hints, stated));
  return stated;
}

Result<spec::Job> read_job(const spec::Library& library, const std::string& what,
                           const ImportHints& hints) {
  return spec::with_defaults(library, TPT_TRY(read_stated_job(library, what, hints)));
}

}  // namespace triplepoint::formats
