// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cctype>

#include "triplepoint/base/files.h"
#include "triplepoint/base/installation.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"
#include "triplepoint/spec/names.h"
#include "triplepoint/spec/sources.h"
#include "triplepoint/spec/table_reader.h"

namespace triplepoint::spec {
namespace {

/// What a file of the library may hold besides the thing itself.
void check_only_table(const TomlValue& root, const ReadScope& scope, const std::string& name,
                      Problems& problems) {
  const std::vector<std::string> known = {name, "source", "fit"};
  for (const TomlEntry& entry : root.entries)
    if (!holds(known, entry.key))
      problems.add(
          entry.value.line,
          {fmt::format("{}:{}: unknown key '{}' (this file describes a [{}]); {}", scope.file,
                       entry.value.line, entry.key, name, did_you_mean(entry.key, known))});
  if (root.find(name) == nullptr)
    problems.add(1, {fmt::format("{}:1: no [{}] in the file (it is all this file is for); write "
                                 "one",
                                 scope.file, name)});
}

/// Entries of `from` go into `table`, tables into tables.
void merge(TomlValue& table, const TomlValue& from) {
  for (const TomlEntry& entry : from.entries) {
    const auto known = std::ranges::find(table.entries, entry.key, &TomlEntry::key);
    if (known == table.entries.end())
      table.entries.push_back(entry);
    else if (known->value.is(TomlValue::Kind::table) && entry.value.is(TomlValue::Kind::table))
      merge(known->value, entry.value);
    else
      known->value = entry.value;
  }
}

/// What the library's overrides say of this file of it, or null.
const TomlValue* override_of(const Library& library, const Path& file) {
  const TomlValue* found = library.overrides.get();
  for (const Path& part : Path(file).replace_extension().lexically_relative(library.root))
    found = found == nullptr ? nullptr : found->find(part.string());
  return found;
}

/// Reads the [name] of `path` into `out`, and checks its sources. Returns that table.
Result<TomlValue> read_library_file(const ReadScope& outer, const Path& path,
                                    const std::string& name, auto& out) {
  ReadScope scope = outer;
  scope.file = path.string();
  scope.key.clear();
  const std::string text = TPT_TRY(read_file(path));
  const TomlValue root = TPT_TRY(parse_toml(text, scope.file));
  Problems problems;
  check_only_table(root, scope, name, problems);
  if (const auto sources = collect_provenance(root, scope.file); !sources)
    problems.add(0, sources.error());
  TomlValue table;
  if (const TomlValue* found = root.find(name)) {
    table = *found;
    if (const TomlValue* instead = override_of(*scope.library, path)) merge(table, *instead);
    if (const auto read = read_value(scope.at(name), table, out); !read)
      problems.add(table.line, read.error());
  }
  TPT_TRY(problems.result());
  return table;
}

struct LibraryFolder {
  const char* folder;  // "models"
  const char* thing;   // "model": the word of messages and the table of the file
};

std::string stem_below(const Path& folder, const Path& file) {
  return file.lexically_relative(folder).replace_extension().generic_string();
}

std::vector<std::string> list_folder(const Library& library, const char* folder) {
  const Path path = Path(library.root) / folder;
  std::vector<std::string> names;
  if (const auto files = list_files(path, ".toml"))
    for (const Path& file : *files)
      names.push_back(stem_below(path, file));
  return names;
}

/// Whether it means a place on this machine, and not an id as "owner/Name".
bool is_path(std::string_view name) {
  const auto slashes = std::ranges::count(name, '/');
  return name.empty() || name.find_first_of("./~") == 0 || name.ends_with('/') || slashes > 1 ||
         (slashes == 1 && path_exists(std::string(name)));
}

/// The table of a folder in aliases.toml; empty where the file has none.
Result<TomlValue> other_names(const Library& library, std::string_view folder) {
  const std::string file = library.root + "/aliases.toml";
  if (!path_exists(file)) return TomlValue();
  const TomlValue root = TPT_TRY(parse_toml(TPT_TRY(read_file(file)), file));
  const TomlValue* names = root.find(folder);
  return names == nullptr ? TomlValue() : *names;
}

/// The nearest name, by which other tools call it as well; of many names where to find them.
Result<std::string> way_to_name(const Library& library, const LibraryFolder& in,
                                std::string_view name) {
  constexpr std::size_t most = 30;
  const std::vector<std::string> known = list_folder(library, in.folder);
  std::vector<std::string> all = known;
  for (const TomlEntry& alias : TPT_TRY(other_names(library, in.folder)).entries)
    all.push_back(alias.key);
  if (closest_word(name, all)) return did_you_mean(name, all);
  if (known.size() <= most) return did_you_mean(name, known);
  return fmt::format("triplepoint show {} prints them; a file ends in .toml", in.folder);
}

Result<Path> find_in_folder(const Library& library, const LibraryFolder& in,
                            std::string_view name) {
  if (name.ends_with(".toml")) return Path(name);
  const std::string meant = TPT_TRY(name_in_library(library, in.folder, name));
  if (!meant.empty()) {
    const Path folder = Path(library.root) / in.folder;
    const Path file = folder / (meant + ".toml");
    const TomlValue* instead = override_of(library, file);
    if (instead == nullptr || !instead->is(TomlValue::Kind::text)) return file;
    return folder / (instead->text + ".toml");
  }
  return error("no {0} \"{1}\" (there is no {2}/{1}.toml in {3}{4}); {5}", in.thing, name,
               in.folder, library.root, is_path(name) ? ", and no such file" : "",
               TPT_TRY(way_to_name(library, in, name)));
}

template <class T>
Result<T> load_from_folder(const ReadScope& scope, const LibraryFolder& in, std::string_view name) {
  const Path path = TPT_TRY(find_in_folder(*scope.library, in, name));
  ReadScope whole = scope;
  whole.from_scratch = true;
  T thing;
  const TomlValue table = TPT_TRY(read_library_file(whole, path, in.thing, thing));
  if (table.find("name") == nullptr) thing.name = path.stem().string();
  return thing;
}

/// A block of coefficients has its own file, so that a fit replaces one file and nothing else.
Result<void> merge_calibration(const ReadScope& scope, const Path& folder, const std::string& block,
                               auto& out) {
  const Path path = folder / (block + ".toml");
  if (path_exists(path)) TPT_TRY(read_library_file(scope, path, block, out));
  return {};
}

/// First what holds for every GPU, then the GPU's own, which overrides it.
Result<void> merge_calibrations(const ReadScope& scope, Gpu& gpu) {
  const Path calibrations = Path(scope.library->root) / "calibrations";
  const Path folder = calibrations / gpu.name;
  ReadScope partial = scope, own = scope;
  partial.from_scratch = false;
  own.from_scratch = true;
  Result<void> merged = merge_calibration(partial, calibrations / "all", "kernels", gpu.kernels);
  if (merged) merged = merge_calibration(own, folder, "kernels", gpu.kernels);
  if (merged) merged = merge_calibration(own, folder, "power", gpu.power);
  if (merged) merged = merge_calibration(own, folder, "thermal", gpu.thermal);
  if (merged) merged = merge_calibration(own, folder, "governor", gpu.governor);
  if (merged) merged = merge_calibration(own, folder, "sensor", gpu.sensor);
  if (merged) merged = merge_calibration(own, folder, "variability", gpu.variability);
  return merged;
}

ReadScope outermost(const Library& library) {
  ReadScope scope;
  scope.library = &library;
  return scope;
}

}  // namespace

Result<Model> NamedThing<Model>::load(const ReadScope& scope, std::string_view name) {
  return load_from_folder<Model>(scope, {"models", "model"}, name);
}

Result<Gpu> NamedThing<Gpu>::load(const ReadScope& scope, std::string_view name) {
  Gpu gpu = TPT_TRY(load_from_folder<Gpu>(scope, {"gpus", "gpu"}, name));
  if (auto merged = merge_calibrations(scope, gpu); !merged) return tl::unexpected(merged.error());
  return gpu;
}

Result<Cluster> NamedThing<Cluster>::load(const ReadScope& scope, std::string_view name) {
  return load_from_folder<Cluster>(scope, {"clusters", "cluster"}, name);
}

Result<Stack> NamedThing<Stack>::load(const ReadScope& scope, std::string_view name) {
  return load_from_folder<Stack>(scope, {"stacks", "stack"}, name);
}

Result<OptimizerState> NamedThing<OptimizerState>::load(const ReadScope& scope,
                                                        std::string_view name) {
  return load_from_folder<OptimizerState>(scope, {"optimizers", "optimizer"}, name);
}

Result<Records> NamedThing<Records>::load(const ReadScope& scope, std::string_view name) {
  return load_from_folder<Records>(scope, {"records", "records"}, name);
}

Result<Library> require_library() {
  return Library{TPT_TRY(data_folder()).string()};
}

Library default_library() {
  const Result<Path> folder = data_folder();
  return {folder ? folder->string() : "data"};
}

Result<Library> without_source(const Library& library, std::string_view source) {
  const std::string path = library.root + "/calibrations/left_out.toml";
  const Result<std::string> text = read_file(path);
  if (!text)
    return error(
        "{}: not there (it holds the coefficients fitted without each source); "
        "run lab/leave_out.py",
        path);
  const TomlValue root = TPT_TRY(parse_toml(*text, path));
  const TomlValue* overrides = root.find(source);
  if (overrides == nullptr) {
    std::vector<std::string> sources;
    for (const TomlEntry& entry : root.entries)
      if (entry.key != "source") sources.push_back(entry.key);  // where the coefficients are from
    return error("{}: no source \"{}\" (nothing was fitted without it); {}", path, source,
                 did_you_mean(source, sources));
  }
  Library without = library;
  without.overrides = std::make_shared<const TomlValue>(*overrides);
  return without;
}

Result<Model> load_model(const Library& library, std::string_view name) {
  return NamedThing<Model>::load(outermost(library), name);
}
Result<Gpu> load_gpu(const Library& library, std::string_view name) {
  return NamedThing<Gpu>::load(outermost(library), name);
}
Result<Cluster> load_cluster(const Library& library, std::string_view name) {
  return NamedThing<Cluster>::load(outermost(library), name);
}
Result<Stack> load_stack(const Library& library, std::string_view name) {
  return NamedThing<Stack>::load(outermost(library), name);
}
Result<OptimizerState> load_optimizer(const Library& library, std::string_view name) {
  return NamedThing<OptimizerState>::load(outermost(library), name);
}

Result<Records> load_records(const Library& library, std::string_view name) {
  return NamedThing<Records>::load(outermost(library), name);
}

std::string default_optimizer(const Stack& stack) {
  return stack.optimizer.empty() ? "distributed_fused_adam" : stack.optimizer;
}

Result<std::string> name_in_library(const Library& library, const char* folder,
                                    std::string_view name) {
  const auto is_known = [&](std::string_view each) {
    return !each.empty() && path_exists(fmt::format("{}/{}/{}.toml", library.root, folder, each));
  };
  if (is_path(name)) return std::string();
  if (is_known(name)) return std::string(name);
  const std::string lower = lower_case(name.substr(name.rfind('/') + 1));
  if (is_known(lower)) return lower;
  const TomlValue aliases = TPT_TRY(other_names(library, folder));
  const TomlValue* found = aliases.find(lower);
  return found == nullptr ? std::string() : found->text;
}

std::vector<std::string> list_models(const Library& library) {
  return list_folder(library, "models");
}
std::vector<std::string> list_gpus(const Library& library) {
  return list_folder(library, "gpus");
}
std::vector<std::string> list_clusters(const Library& library) {
  return list_folder(library, "clusters");
}
std::vector<std::string> list_stacks(const Library& library) {
  return list_folder(library, "stacks");
}
std::vector<std::string> list_studies(const Library& library) {
  return list_folder(library, "studies");
}
std::vector<std::string> list_optimizers(const Library& library) {
  return list_folder(library, "optimizers");
}

std::vector<std::string> list_records(const Library& library) {
  return list_folder(library, "records");
}

Result<std::vector<Provenance>> provenance(const Library& library, std::string_view file) {
  Path path = Path(library.root) / file;
  if (path.extension() != ".toml") path += ".toml";
  const std::string text = TPT_TRY(read_file(path));
  const TomlValue root = TPT_TRY(parse_toml(text, path.string()));
  return collect_provenance(root, path.string());
}

std::string about_model(const spec::Model& model) {
  const spec::ParameterCount count = spec::count_parameters(model);
  std::string text = fmt::format("{:.4g} B parameters", count.total() / 1e9);
  if (model.moe)
    text +=
        fmt::format(", {:.4g} B active, {} experts", count.active() / 1e9, model.moe->num_experts);
  return text + fmt::format(", {} layers, sequence {}", model.num_layers, model.sequence_length);
}

std::string about_gpu(const spec::Gpu& gpu) {
  std::string text = gpu.title;
  if (gpu.memory) text += fmt::format(", {:.0f} GiB", *gpu.memory / unit::GiB);
  if (gpu.peak_bf16) {
    const double peak = *gpu.peak_bf16 / (unit::TFLOP / unit::s);
    text += fmt::format(", {} TFLOP/s bf16",
                        peak < 10 ? significant(peak) : fmt::format("{:.0f}", peak));
  }
  if (gpu.tdp) text += fmt::format(", {:.0f} W", *gpu.tdp / unit::W);
  return text;
}

std::string about_cluster(const spec::Cluster& cluster) {
  std::string fabric(spec::enum_name(cluster.scale_out.kind));
  std::ranges::replace(fabric, '_', ' ');
  return fmt::format("{}, {} x {} a node, {}", cluster.title, cluster.gpus_per_node,
                     cluster.gpu.title, fabric);
}

std::string about_stack(const spec::Stack& stack) {
  return fmt::format("{} {}{}{}{}", stack.framework, stack.version,
                     stack.cuda_graphs ? ", CUDA graphs" : "",
                     stack.profiled ? ", under a profiler" : "",
                     stack.optimizer.empty() ? "" : ", " + stack.optimizer);
}

std::string about_optimizer(const spec::OptimizerState& optimizer) {
  return fmt::format(
      "{:.4g} bytes per parameter before sharding: weight {:g}, gradient {:g}, "
      "moments {:g}, master {:g}; gradients reduced in {:g}",
      optimizer.weight_bytes + optimizer.gradient_bytes + optimizer.moment_bytes +
          optimizer.master_bytes,
      optimizer.weight_bytes, optimizer.gradient_bytes, optimizer.moment_bytes,
      optimizer.master_bytes, optimizer.gradient_sync_bytes);
}

std::string about_records(const spec::Records& records) {
  const auto [shortest, longest] = std::ranges::minmax_element(records.lengths);
  if (shortest == records.lengths.end()) return "no records";
  return fmt::format("{:.4g} tokens a record on average, {} to {}", records.mean_length(),
                     *shortest, *longest);
}

std::string about_study(const spec::StudyPlan& study) {
  return fmt::format("{} ({} jobs{})", study.title, study.jobs.size(),
                     study.score ? fmt::format(", each {} times", study.score->repeats) : "");
}

namespace {

struct Named {
  std::string_view part, name;
};

// Longer names first: a GB200 is no B200.
constexpr std::array gpus = {
    Named{"gb300", "gb300"},      Named{"gb200", "gb200"},      Named{"gh200", "gh200"},
    Named{"b300", "b300"},        Named{"b200", "b200"},        Named{"h800", "h800"},
    Named{"h200nvl", "h200-nvl"}, Named{"h200", "h200"},        Named{"h10096gb", "h100-96gb"},
    Named{"h100", "h100"},        Named{"a10080", "a100-80gb"}, Named{"a100", "a100-80gb"},
    Named{"mi355", "mi355x"},     Named{"mi350", "mi350x"},     Named{"mi325", "mi325x"},
    Named{"mi300", "mi300x"},     Named{"mi250x", "mi250x"},    Named{"mi250", "mi250"},
    Named{"mi210", "mi250"},  // the same die, one to a package
    Named{"a800", "a800"},        Named{"v100", "v100-32gb"},   Named{"h20", "h20"},
    Named{"l40s", "l40s"}};

// The machine most often built around each GPU.
constexpr std::array clusters = {Named{"a100-40gb", "dgx-a100-40gb"},
                                 Named{"a100-80gb", "dgx-a100"},
                                 Named{"h100", "dgx-h100"},
                                 Named{"h100-96gb", "hgx-h100-96gb"},
                                 Named{"h200", "dgx-h200"},
                                 Named{"h200-nvl", "h200-nvl"},
                                 Named{"h800", "hgx-h800"},
                                 Named{"b200", "dgx-b200"},
                                 Named{"b300", "dgx-b300"},
                                 Named{"gb200", "gb200-nvl72"},
                                 Named{"gb300", "gb300-nvl72"},
                                 Named{"mi250", "mi250"},
                                 Named{"mi250x", "frontier"},
                                 Named{"mi300x", "mi300x"},
                                 Named{"mi325x", "mi325x"},
                                 Named{"mi350x", "mi350x"},
                                 Named{"mi355x", "mi355x"},
                                 Named{"v100-32gb", "jean-zay-v100"},
                                 Named{"a800", "hgx-a800"},
                                 Named{"h20", "hgx-h20"},
                                 Named{"gh200", "alps"},
                                 Named{"l40s", "l40s"}};

std::string letters_and_digits(std::string_view text) {
  std::string plain;
  for (const unsigned char c : text)
    if (std::isalnum(c) != 0) plain += static_cast<char>(std::tolower(c));
  return plain;
}

}  // namespace

std::optional<std::string> gpu_named(std::string_view spelling) {
  const std::string plain = letters_and_digits(spelling);
  for (const Named& gpu : gpus) {
    // "h20" stands in "epoch20", too.
    const bool found = gpu.part.size() > 3 ? contains(plain, gpu.part)
                                           : plain == gpu.part || plain.starts_with("nvidiah20");
    if (!found) continue;
    const bool small = gpu.name == "a100-80gb" && contains(plain, "40gb");
    return std::string(small ? "a100-40gb" : gpu.name);
  }
  return std::nullopt;
}

std::optional<std::string> usual_cluster(std::string_view gpu) {
  const auto found = std::ranges::find(clusters, gpu, &Named::part);
  if (found == clusters.end()) return std::nullopt;
  return std::string(found->name);
}

}  // namespace triplepoint::spec
