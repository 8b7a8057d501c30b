// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <system_error>
#include <utility>

#include "triplepoint/base/text.h"

#include "triplepoint/formats/import.h"
#include "triplepoint/formats/key_table.h"
#include "triplepoint/formats/library_cache.h"
#include "triplepoint/formats/readers.h"
#include "triplepoint/formats/settings.h"
#include "triplepoint/formats/yaml_document.h"

namespace triplepoint::formats {
namespace {

using spec::Job;

constexpr std::uintmax_t largest_file = std::uintmax_t{4} << 20;

Result<Imported> import_kind(LibraryCache& cache, FileKind kind, const std::string& text,
                             const std::string& path, const ImportHints& hints) {
  if (kind == FileKind::nemo_yaml) return import_nemo(cache, text, path, hints);
  if (kind == FileKind::tool) return import_tool(cache, text, path, hints);
  return import_megatron(cache, text, path, hints);
}

/// What is left of a job when everything is taken out that its plan makes idle: two jobs that are
/// equal then take the same time and power.
Job without_idle_options(Job job) {
  job.name = job.origin = {};
  job.notes.clear();
  spec::Plan& plan = job.plan;
  if (plan.tensor_parallel_size == 1) plan.overlap_tensor = plan.sequence_parallel = false;
  if (plan.pipeline_parallel_size == 1) plan.overlap_pipeline = false;
  if (plan.expert_parallel_size == 1) plan.overlap_expert = false;
  const bool alone = job.world_size() <= plan.model_parallel_size();
  if (alone) plan.overlap_gradient = plan.overlap_parameter = false;
  if (!plan.overlap_gradient && !plan.overlap_parameter) plan.gradient_bucket.reset();
  return job;
}

bool predict_alike(const Job& a, const Job& b) {
  return a.task == b.task && a.model == b.model && a.plan == b.plan && a.stack == b.stack &&
         a.environment == b.environment && a.cluster.name == b.cluster.name &&
         a.cluster.num_nodes == b.cluster.num_nodes &&
         a.cluster.gpus_per_node == b.cluster.gpus_per_node;
}

using Words = std::map<std::string, std::vector<std::string>>;

Words words_by_key(const std::string& text, const KeyTable& table) {
  Words words;
  const auto document = parse_yaml(text, {});
  if (!document) return words;
  Settings settings({});
  settings.add_tree(*document);
  for (const Setting& setting : settings.all())
    if (table.without_effect(setting.key) == nullptr) words[setting.key] = setting.words;
  return words;
}

std::vector<std::string> differing_keys(const Words& a, const Words& b) {
  std::vector<std::string> keys;
  for (const auto& [key, words] : a) {
    const auto other = b.find(key);
    if (other == b.end() || other->second != words) keys.push_back(key);
  }
  for (const auto& entry : b)
    if (!a.contains(entry.first)) keys.push_back(entry.first);
  return keys;
}

/// One folder's import: what has been read so far.
class FolderReader {
 public:
  FolderReader(const spec::Library& library, Path folder, const ImportHints& hints)
      : cache_(library), folder_(std::move(folder)), hints_(hints) {}

  void read(const Path& file) {
    std::error_code unknown;
    const std::string name = file.lexically_relative(folder_).generic_string();
    const auto text = std::filesystem::file_size(file, unknown) <= largest_file
                          ? read_file(file)
                          : Result<std::string>(error("larger than 4 MiB"));
    const FileKind kind = text ? recognize(*text) : FileKind::unknown;
    if (kind != FileKind::nemo_yaml && kind != FileKind::megatron_args && kind != FileKind::tool)
      result_.skipped.push_back(name);
    else
      add(file, name, kind, *text);
  }

  FolderImport finish() {
    for (std::size_t i = 0; i < result_.rows.size(); ++i)
      compare_with_neighbours(i);
    return std::move(result_);
  }

 private:
  void add(const Path& file, const std::string& name, FileKind kind, const std::string& text) {
    FolderRow row;
    row.path = name;
    ImportHints hints = hints_;
    if (!hints.job_script)
      if (auto script = job_script_beside(file)) hints.job_script = *script;
    auto imported = import_kind(cache_, kind, text, file.string(), hints);
    if (imported)
      row.imported = std::move(*imported);
    else
      row.problem = imported.error().what;
    const auto [first, is_new] = first_with_content_.emplace(text, name);
    if (!is_new) row.identical_to = first->second;
    neutral_.push_back(row.imported ? without_idle_options(row.imported->job) : Job());
    texts_.push_back(text);
    neighbours_[file.parent_path().string()].push_back(result_.rows.size());
    folders_.push_back(file.parent_path().string());
    result_.rows.push_back(std::move(row));
  }

  void compare_with_neighbours(std::size_t mine) {
    FolderRow& row = result_.rows[mine];
    if (!row.imported) return;
    for (const std::size_t other : neighbours_[folders_[mine]]) {
      if (other >= mine) return;
      const FolderRow& earlier = result_.rows[other];
      if (!earlier.imported || texts_[other] == texts_[mine]) continue;
      if (!predict_alike(neutral_[other], neutral_[mine])) continue;
      row.same_job_as = earlier.path;
      row.imported->diagnoses.push_back(inert(mine, other));
      return;
    }
  }

  spec::Diagnosis inert(std::size_t mine, std::size_t other) {
    const Result<KeyTable> table = KeyTable::load(cache_.library(), "nemo");
    const std::vector<std::string> keys = table
                                              ? differing_keys(words_by_key(texts_[other], *table),
                                                               words_by_key(texts_[mine], *table))
                                              : std::vector<std::string>();
    const std::string in_vain = keys.empty()
                                    ? "only names and paths differ"
                                    : fmt::format("{} change{} nothing here", fmt::join(keys, ", "),
                                                  keys.size() == 1 ? "s" : "");
    return {spec::DiagnosisCode::inert_option, spec::Diagnosis::Severity::warning,
            fmt::format("{}: is the same job as {} ({}); leave one of the two out",
                        result_.rows[mine].imported->job.origin,
                        Path(result_.rows[other].path).filename().string(), in_vain)};
  }

  LibraryCache cache_;
  Path folder_;
  const ImportHints& hints_;
  FolderImport result_;
  std::map<std::string, std::string> first_with_content_;
  std::map<std::string, std::vector<std::size_t>> neighbours_;  // rows of one folder
  std::vector<Job> neutral_;                                    // of each row
  std::vector<std::string> texts_, folders_;
};

}  // namespace

int64_t FolderImport::distinct() const {
  return std::ranges::count_if(rows, [](const FolderRow& row) { return !row.identical_to; });
}

Result<FolderImport> import_folder(const spec::Library& library, const Path& folder,
                                   const ImportHints& hints) {
  std::vector<Path> files = TPT_TRY(list_files(folder, ""));
  std::ranges::sort(files, [](const Path& a, const Path& b) {
    return natural_less(a.generic_string(), b.generic_string());
  });
  FolderReader reader(library, folder, hints);
  for (const Path& file : files)
    reader.read(file);
  return reader.finish();
}

Result<Imported> import_file(const spec::Library& library, const Path& path, ImportHints hints) {
  const std::string text = TPT_TRY(read_file(path));
  if (text.empty())
    return error("{}: the file is empty (a job was expected); see triplepoint simulate --help",
                 path.string());
  FileKind kind = recognize(text);
  if (kind == FileKind::unknown && is_shell_script(path.string())) kind = FileKind::job_script;
  if (kind == FileKind::hf_config) return import_hf_job(library, text, path.string(), hints);
  if (kind == FileKind::unknown && holds(std::array{".json", ".yaml", ".yml"}, path.extension()))
    TPT_TRY(parse_any(text, path.string()));
  if (kind == FileKind::unknown)
    return error(
        "{}: holds no job (its kind is not recognized); give a job.toml, a NeMo YAML, a "
        "Megatron command line, or a config.json with \"model_type\"",
        path.string());
  const bool script = kind == FileKind::megatron_args || kind == FileKind::job_script;
  if (!script) TPT_TRY(refuse_script_words(hints, path.string()));
  if (!hints.job_script && kind == FileKind::nemo_yaml)
    hints.job_script = TPT_TRY(job_script_beside(path));
  LibraryCache cache(library);
  return import_kind(cache, kind, text, path.string(), hints);
}

}  // namespace triplepoint::formats
