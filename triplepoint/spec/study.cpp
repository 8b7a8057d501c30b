// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <set>

#include "triplepoint/base/files.h"

#include "triplepoint/spec/load.h"
#include "triplepoint/spec/table_reader.h"

namespace triplepoint::spec {
namespace {

using Kind = TomlValue::Kind;

// A grid that grows beyond this was not meant.
constexpr std::size_t most_jobs = 100'000;

const std::vector<std::string>& study_job_keys() {
  static const std::vector<std::string> keys = {"name",        "task",  "model",  "sequence_length",
                                                "cluster",     "nodes", "stack",  "plan",
                                                "environment", "notes", "records"};
  return keys;
}

bool is_job_key(const std::string& key) {
  return holds(study_job_keys(), key);
}

/// Later values replace earlier ones; tables are merged key by key.
void merge_entry(TomlValue& into, const std::string& key, const TomlValue& value) {
  TomlValue* present = into.find(key);
  if (present == nullptr) {
    into.entries.push_back({key, value});
  } else if (present->is(Kind::table) && value.is(Kind::table)) {
    for (const TomlEntry& entry : value.entries)
      merge_entry(*present, entry.key, entry.value);
  } else {
    *present = value;
  }
}

/// A key of a job goes there, every other one into its plan: axes mostly vary the plan.
void merge_fragment_entry(TomlValue& job, const std::string& key, const TomlValue& value) {
  if (is_job_key(key)) return merge_entry(job, key, value);
  TomlValue plan;
  plan.line = value.line;
  plan.entries.push_back({key, value});
  merge_entry(job, "plan", plan);
}

/// One step of one axis: what to call it, and what it sets.
struct AxisValue {
  std::string label;
  std::vector<TomlEntry> entries;
};
struct Axis {
  std::string name;  // placeholder in the grid's name
  std::vector<AxisValue> values;
};

/// Text of a value inside a job's name.
std::string label_of(const TomlValue& value) {
  switch (value.kind) {
    case Kind::text:
      return value.text;
    case Kind::integer:
      return std::to_string(value.integer);
    case Kind::number:
      return fmt::format("{}", value.number);
    case Kind::truth:
      return value.truth ? "on" : "off";
    default:
      return "list";
  }
}

Result<AxisValue> read_axis_value(const ReadScope& scope, const TomlValue& table) {
  const TomlValue* label = table.find("label");
  if (!table.is(Kind::table) || label == nullptr || !label->is(Kind::text))
    return error(
        "{}:{}: a value of an axis has no label (jobs are named by it); write "
        "{{ label = \"TP8-PP4\", ... }}",
        scope.file, table.line);
  AxisValue value{label->text, {}};
  for (const TomlEntry& entry : table.entries)
    if (entry.key != "label") value.entries.push_back(entry);
  return value;
}

Result<Axis> read_axis(const ReadScope& scope, const TomlValue& table) {
  std::string name;
  const TomlValue* values = table.find("values");
  if (values == nullptr || values->items.empty())
    return error("{}:{}: an [[axis]] has no values (it would make no job); add values = [ ... ]",
                 scope.file, table.line);
  TableReader reader(table, scope.at("axis"));
  reader("name", name, Need::required);
  reader.allow("values");
  if (auto finished = reader.finish(); !finished) return tl::unexpected(finished.error());
  Axis axis{name, {}};
  for (const TomlValue& value : values->items)
    axis.values.push_back(TPT_TRY(read_axis_value(scope, value)));
  return axis;
}

/// These are lists already; only a list of lists varies them.
bool takes_a_list(const std::string& key) {
  return key == "layers_per_stage" || key == "device_order" || key == "node_order" ||
         key == "notes";
}

bool varies(const TomlEntry& entry) {
  if (!entry.value.is(Kind::array) || entry.value.items.empty()) return false;
  return !takes_a_list(entry.key) || entry.value.items.front().is(Kind::array);
}

/// `micro_batch_size = [1, 2, 4]` is its own axis.
Axis list_axis(const TomlEntry& entry) {
  Axis axis{entry.key, {}};
  for (const TomlValue& item : entry.value.items)
    axis.values.push_back({label_of(item), {{entry.key, item}}});
  return axis;
}

/// Moves the varying keys of a table out of it.
void take_list_axes(TomlValue& table, std::vector<Axis>& axes) {
  for (const TomlEntry& entry : table.entries)
    if (varies(entry)) axes.push_back(list_axis(entry));
  std::erase_if(table.entries, varies);
}

void replace_all(std::string& text, const std::string& what, const std::string& with) {
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

std::string default_name(const std::vector<Axis>& axes) {
  return joined(mapped(axes, [](const Axis& axis) { return "{" + axis.name + "}"; }), "_");
}

Result<StudyPlan> load_study_at(const Library& library, std::string_view name, int depth);

/// Reads one study file; included ones are read by another reader of the same kind.
class StudyReader {
 public:
  StudyReader(ReadScope scope, StudyPlan& study) : scope_(std::move(scope)), study_(study) {}

  Result<void> read(const TomlValue& root) {
    if (auto read = read_head(root); !read) return read;
    Problems problems;
    for (const TomlEntry& entry : root.entries)
      if (entry.key == "job" || entry.key == "grid")
        read_jobs(entry, problems);
      else if (entry.key == "score")
        read_score(entry, problems);
    return problems.none() ? names_are_unique() : problems.result();
  }

 private:
  void read_jobs(const TomlEntry& entry, Problems& problems) {
    if (!entry.value.is(Kind::array))
      problems.add(entry.value.line,
                   wrong_kind(scope_.at(entry.key), entry.value, "there may be several",
                              fmt::format("write [[{}]]", entry.key))
                       .value());
    for (const TomlValue& item : entry.value.items)
      if (auto read = entry.key == "job" ? read_one(item) : read_grid(item); !read)
        problems.add(item.line, read.error());
  }

  void read_score(const TomlEntry& entry, Problems& problems) {
    Result<void> read = read_value(scope_.at("score"), entry.value, study_.score);
    if (read && !is_sane(*study_.score))
      read = error(
          "{}:{}: [score] scores nothing, or better as worse (duration and halves are "
          "above 0, repeats at least 1, weights 0 or more and one above, references one "
          "value for each metric); correct them",
          scope_.file, entry.value.line);
    if (!read) problems.add(entry.value.line, read.error());
  }

  static bool is_sane(const ScoreRules& rules) {  // TOML knows nan and inf
    double sum = 0;
    for (const ScoreWeight& metric : rules.metric) {
      const double halves = metric.halves.value_or(1);
      if (!(metric.weight >= 0) || !(halves > 0) || !std::isfinite(halves)) return false;
      sum += metric.weight;
    }
    return rules.duration > Seconds() && rules.repeats >= 1 && sum > 0 && std::isfinite(sum) &&
           std::ranges::all_of(rules.reference, [](const ScoreReference& reference) {
             return reference.values.size() == score_metric_count;
           });
  }

  Result<void> read_head(const TomlValue& root) {
    static const std::vector<std::string> known = {"study", "defaults", "job", "grid", "score"};
    Problems problems;
    for (const TomlEntry& entry : root.entries)
      if (!holds(known, entry.key))
        problems.add(entry.value.line,
                     {fmt::format("{}:{}: unknown key '{}' (it would be ignored); {}", scope_.file,
                                  entry.value.line, entry.key, did_you_mean(entry.key, known))});
    TPT_TRY(problems.result());
    if (const TomlValue* defaults = root.find("defaults")) defaults_ = *defaults;
    const TomlValue* head = root.find("study");
    if (head == nullptr)
      return error("{}:1: no [study] in the file (it has the title); write one", scope_.file);
    StudyHead read;
    TPT_TRY(read_table(scope_.at("study"), *head, read));
    study_.title = read.title;
    study_.about = read.about;
    return include_all(read.include, head->line);
  }

  /// Jobs of other studies, without those that are here already under another name.
  Result<void> include_all(const std::vector<std::string>& names, int line) {
    if (scope_.depth > 8)
      return error(
          "{}:{}: studies include each other too deeply (a study cannot include "
          "itself); remove one",
          scope_.file, line);
    for (const std::string& name : names) {
      const StudyPlan other = TPT_TRY(load_study_at(*scope_.library, name, scope_.depth + 1));
      for (const StudyJob& job : other.jobs)
        if (!holds_same(job.job)) study_.jobs.push_back(job);
    }
    return {};
  }

  bool holds_same(const Job& job) const {
    return std::ranges::any_of(study_.jobs, [&](const StudyJob& held) {
      Job same = held.job;
      same.name = job.name;
      same.origin = job.origin;
      return same == job;
    });
  }

  Result<void> read_one(const TomlValue& table) {
    TomlValue job = defaults_;
    job.line = table.line;
    for (const TomlEntry& entry : table.entries)
      if (entry.key != "diagnosis") merge_fragment_entry(job, entry.key, entry.value);
    return add(job, table.find("diagnosis"));
  }

  Result<void> read_grid(const TomlValue& table) {
    std::vector<Axis> axes;
    if (const TomlValue* listed = table.find("axis"))
      for (const TomlValue& axis : listed->items)
        axes.push_back(TPT_TRY(read_axis(scope_, axis)));
    TomlValue base = defaults_;
    base.line = table.line;
    for (const TomlEntry& entry : table.entries)
      if (entry.key != "axis" && entry.key != "diagnosis")
        merge_fragment_entry(base, entry.key, entry.value);
    take_list_axes(base, axes);
    if (TomlValue* plan = base.find("plan")) take_list_axes(*plan, axes);
    return expand_axes(base, axes, table.find("diagnosis"));
  }

  /// All combinations, the last axis fastest.
  Result<void> expand_axes(const TomlValue& base, const std::vector<Axis>& axes,
                           const TomlValue* diagnosis) {
    std::size_t count = 1;
    for (const Axis& axis : axes) {
      count *= axis.values.size();
      if (count > most_jobs)
        return error(
            "{}:{}: the grid makes more than {} jobs (that was hardly meant); take values out",
            scope_.file, base.line, most_jobs);
    }
    for (std::size_t i = 0; i < count; ++i)
      if (auto added = add(combination(base, axes, i), diagnosis); !added) return added;
    return {};
  }

  static TomlValue combination(const TomlValue& base, const std::vector<Axis>& axes,
                               std::size_t index) {
    TomlValue job = base;
    const TomlValue* written = base.find("name");
    std::string name = written != nullptr ? written->text : default_name(axes);
    for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
      const AxisValue& value = axis->values[index % axis->values.size()];
      index /= axis->values.size();
      for (const TomlEntry& entry : value.entries)
        merge_fragment_entry(job, entry.key, entry.value);
      replace_all(name, fmt::format("{{{}}}", axis->name), value.label);
    }
    TomlValue text;
    text.kind = Kind::text;
    text.line = base.line;
    text.text = name;
    merge_entry(job, "name", text);
    return job;
  }

  Result<void> add(const TomlValue& table, const TomlValue* declared) {
    StudyJob entry;
    entry.job = TPT_TRY(read_job(scope_, table));
    if (entry.job.name.empty())
      return error("{}:{}: a job has no name (its run is stored under it); add name = \"...\"",
                   scope_.file, table.line);
    if (declared != nullptr)
      if (auto read = read_value(scope_.at("diagnosis"), *declared, entry.diagnoses); !read)
        return read;
    for (Diagnosis& diagnosis : diagnose(entry.job))
      entry.diagnoses.push_back(std::move(diagnosis));
    study_.jobs.push_back(std::move(entry));
    return {};
  }

  Result<void> names_are_unique() const {
    if (study_.score && study_.jobs.empty())
      return error("{}: [score] without a job scores nothing; add [[job]]", scope_.file);
    std::set<std::string> seen;
    for (const StudyJob& entry : study_.jobs) {
      const std::string& name = entry.job.name;
      const bool plain = name.find_first_not_of(
                             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                             "0123456789-_.+") == std::string::npos;
      if (!plain || name.starts_with('.'))
        return error(
            "{}: job name \"{}\" is no file name (its run is stored under it); use "
            "letters, digits and - _ . +",
            scope_.file, name);
      if (!seen.insert(name).second)
        return error(
            "{}: two jobs are named \"{}\" (their runs would overwrite each other); "
            "include the difference in the name, as in name = \"{{model}}_{{layout}}\"",
            scope_.file, name);
    }
    return {};
  }

  ReadScope scope_;
  StudyPlan& study_;
  TomlValue defaults_;
};

Result<StudyPlan> parse_study_at(const ReadScope& scope, std::string_view text) {
  const TomlValue root = TPT_TRY(parse_toml(text, scope.file));
  StudyPlan study;
  study.name = Path(scope.file).stem().string();
  study.text = text;
  if (auto read = StudyReader(scope, study).read(root); !read) return tl::unexpected(read.error());
  return study;
}

Result<StudyPlan> load_study_at(const Library& library, std::string_view name, int depth) {
  ReadScope scope;
  scope.library = &library;
  scope.depth = depth;
  const std::vector<std::string> known = list_studies(library);
  const bool listed = holds(known, name);
  const bool is_path = name.ends_with(".toml");
  if (!listed && !is_path && path_exists(Path(name)))
    return error(
        "{} is no study (a study is a TOML file with [study] and [[grid]]); write one, "
        "or name one of triplepoint show studies",
        name);
  if (!listed && !is_path)
    return error("no study \"{0}\" (there is no studies/{0}.toml in {1}); {2}", name, library.root,
                 did_you_mean(name, known));
  const Path path =
      listed ? Path(library.root) / "studies" / (std::string(name) + ".toml") : Path(name);
  scope.file = path.string();
  const std::string text = TPT_TRY(read_file(path));
  StudyPlan study = TPT_TRY(parse_study_at(scope, text));
  if (listed) study.name = std::string(name);
  return study;
}

}  // namespace

Result<StudyPlan> load_study(const Library& library, std::string_view name_or_path) {
  return load_study_at(library, name_or_path, 0);
}

Result<StudyPlan> parse_study(const Library& library, std::string_view text,
                              const std::string& file) {
  ReadScope scope;
  scope.library = &library;
  scope.file = file;
  return parse_study_at(scope, text);
}

}  // namespace triplepoint::spec
