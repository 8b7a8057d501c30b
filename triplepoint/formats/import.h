// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/formats/batch_request.h"
#include "triplepoint/formats/shell_command.h"

namespace triplepoint::formats {

/// What the batch script that starts a job says about it; all else in it is left aside.
struct JobScript : BatchRequest {
  std::string path;
  std::optional<std::string> entry;                    // the program: "megatron_gpt_generate.py"
  std::optional<int64_t> cuda_device_max_connections;  // export CUDA_DEVICE_MAX_CONNECTIONS=1
  bool is_slurm = false;
};

/// What Slurm sets in a script, by its own #SBATCH lines: the same for reading and for running it.
std::map<std::string, std::string> variables_of_slurm(const JobScript& script);

/// Nothing if the text has no #SBATCH, #PBS or #BSUB line.
std::optional<JobScript> read_job_script(std::string_view text, std::string path);

/// The script that belongs to a configuration: name.sh beside name.yaml, or in a folder beside it.
Result<std::optional<JobScript>> job_script_beside(const Path& configuration);

/// A job read from another tool's file.
struct Imported {
  spec::Job job;  // with defaults
  /// What the file itself gets wrong (with file and line), then what spec::diagnose says of the
  /// job.
  std::vector<spec::Diagnosis> diagnoses;
  std::size_t of_file = 0;  // how many of them, from the front, are of the file itself
  /// What the file does not say and had to be filled in; also in job.notes.
  std::vector<std::string> assumed;
  // As in spec::StatedJob.
  std::set<spec::JobSetting> stated;
  std::string length_from = "the model's";
  std::vector<std::string> of_launcher, contested;
  std::set<std::string, std::less<>> keys;  // what the reader looked for, present or not
};

/// What the caller knows and the file does not say. Explicit values win over the file.
struct ImportHints {
  std::optional<std::string> cluster;  // "hgx-h200"
  std::optional<int64_t> num_nodes;
  std::optional<std::string> stack;  // "nemo-profiled"
  std::optional<JobScript> job_script;
  bool to_file = true;  // the job they are given to is a file's; else flags began it
  // Keys whose values flags replace, so that the file's need not be readable: the last part of a
  // key, with dashes ("tensor-model-parallel-size"), or all of it.
  using Keys = std::set<std::string, std::less<>>;
  Keys by_flags = {};
  Keys ignored = {};  // what the user says does not matter (--ignore)
  // What a launch script is started with; nothing else takes any.
  ScriptWorld script = {};
  bool start_a_script() const { return !script.arguments.empty() || !script.variables.empty(); }
  // Runs a script in a sandbox; what it launches. Empty: scripts are read, not run.
  std::function<Result<std::vector<Launch>>(const std::string& path, const ScriptWorld&)>
      run_script = {};
};

/// A configuration of NeMo's megatron_gpt_pretraining, _finetuning or _generate, or the
/// hparams.yaml that its logger leaves: the model's part of one, without nodes, devices and names.
/// A model without a name is the library's of its shape: one whose name stands in the path, else
/// the first.
///
/// Keys that change work, memory, layout, precision or overlap are read; keys which do not are
/// known and passed over; any other key is a diagnosis with file, line and a suggestion. `path` is
/// used in messages, and words in it ("h100") where neither file nor hint names the GPU.
Result<Imported> import_nemo_yaml(const spec::Library& library, const std::string& text,
                                  const std::string& path, const ImportHints& hints);

/// A Megatron-LM command line: a shell script or line (comments, continuations, quotes, variables,
/// arrays, torchrun or srun in front), or a file of arguments.
Result<Imported> import_megatron_args(const spec::Library& library, const std::string& text,
                                      const std::string& path, const ImportHints& hints);

struct ImportedModel {
  spec::Model model;
  std::vector<spec::Diagnosis> diagnoses;
  std::vector<std::string> assumed;
  std::set<std::string, std::less<>> keys;  // what the reader looked for, present or not
};

/// config.json of a Hugging Face decoder (GPT-2, Llama, Mistral, Mixtral, Qwen, DeepSeek, ...). Its
/// sequence length is the longest that the model takes.
Result<ImportedModel> import_hf_config(const spec::Library& library, const std::string& text,
                                       const std::string& path, const ImportHints& hints = {});

/// A model by its name in the library, or of a file: TOML, a config.json or the folder of one.
struct NamedModel {
  spec::Model model;
  std::string length_from = "the model's";
  std::vector<std::string> notes;  // what was assumed
};
Result<NamedModel> read_model(const spec::Library& library, const std::string& name,
                              const ImportHints& hints = {});

/// The config.json in it, if this is a folder that has one; else the path itself.
std::string config_in(const std::string& path);

/// A job of the model of a config.json, the rest by hints and defaults.
///
/// A model whose shape the library has is the library's: with its sequence length, dropout and
/// name. Of several, the one of that name; else one as long as the config's, without limits on
/// experts. Other models train on sequences of 4096 tokens, or fewer where they take fewer.
Result<Imported> import_hf_job(const spec::Library& library, const std::string& text,
                               const std::string& path, const ImportHints& hints);

enum class FileKind { nemo_yaml, megatron_args, hf_config, job_script, tool, unknown };
std::string_view name_of(FileKind kind);

/// What a file is, by what stands in it, not by its name. A shell or batch script in which
/// Megatron's arguments do not stand is a job_script.
FileKind recognize(std::string_view text);

/// The tool whose launch file this is ("torchtitan"), by its keys; empty: none of those that
/// data/readers/tools.toml knows.
std::string tool_of(std::string_view text);

/// Reads a job from a NeMo YAML, a launch script or another tool's file, or one of the model of a
/// config.json, whichever it is; a Slurm script beside a YAML becomes a hint.
Result<Imported> import_file(const spec::Library& library, const Path& path, ImportHints hints);

/// One job file of a folder.
struct FolderRow {
  std::string path;                  // relative to the folder
  std::optional<Imported> imported;  // absent: `problem` says why
  std::string problem;
  std::optional<std::string> identical_to;  // an earlier file with the same bytes
  std::optional<std::string> same_job_as;   // an earlier file beside it with the same job
};

struct FolderImport {
  std::vector<FolderRow> rows;       // in natural order of their paths
  std::vector<std::string> skipped;  // files which hold no job

  int64_t distinct() const;  // rows whose content no earlier row has
};

/// Every job file in a folder and below. A file that cannot be read is a row with its problem.
///
/// Files beside each other whose jobs differ in nothing that matters here are named: the later one
/// gets an `inert_option` warning which lists what differs in vain.
Result<FolderImport> import_folder(const spec::Library& library, const Path& folder,
                                   const ImportHints& hints);

/// A job from whatever file holds one: our TOML, a stored run, NeMo YAML, Megatron arguments; a
/// Hugging Face config.json gives the model only. "paper/h200:NAME" is a job of a study.
Result<spec::Job> read_job(const spec::Library& library, const std::string& what,
                           const ImportHints& hints = {});

/// The same before defaults, for flags to go on top. What `hints` name replaces what the file has.
Result<spec::StatedJob> read_stated_job(const spec::Library& library, const std::string& what,
                                        const ImportHints& hints);

/// An error where arguments or variables of a script were given, and this is none.
Result<void> refuse_script_words(const ImportHints& hints, const std::string& name);

/// Puts cluster, nodes and stack of the hints into a job. The number of nodes stays where it was
/// stated, unless the hints have one; so does a stated optimizer, whatever the stack: with other
/// software the job is else the same.
Result<void> apply_hints(const spec::Library& library, const ImportHints& hints,
                         spec::StatedJob& stated);

}  // namespace triplepoint::formats
