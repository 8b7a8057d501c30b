// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "triplepoint/base/data_table.h"
#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"
#include "triplepoint/spec/toml_tree.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/app/library_text.h"
#include "triplepoint/app/sources.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/launch_flags.h"
#include "triplepoint/formats/import.h"
#include "triplepoint/tui/console.h"
#include "triplepoint/tui/document_text.h"
#include "triplepoint/workload/memory.h"
#include "triplepoint/workload/model_flops.h"

namespace triplepoint::cli {
namespace {

using spec::Library;

/// A kind of thing with a name, the folder its files lie in, and the table in such a file.
struct Kind {
  const char* word;
  const char* folder;  // and what a list of all is called
  const char* table;   // none: the file is no file of data/
  std::vector<std::string> (*list)(const Library&);
  Result<std::string> (*about)(const Library&, const std::string& name);  // in a line
};

/// What a line says of a thing that is read from the library.
template <auto Load, auto About>
Result<std::string> about(const Library& library, const std::string& name) {
  return About(TPT_TRY(Load(library, name)));
}

constexpr Kind kinds[] = {
    {"model", "models", "model", spec::list_models, about<spec::load_model, spec::about_model>},
    {"GPU", "gpus", "gpu", spec::list_gpus, about<spec::load_gpu, spec::about_gpu>},
    {"cluster", "clusters", "cluster", spec::list_clusters,
     about<spec::load_cluster, spec::about_cluster>},
    {"stack", "stacks", "stack", spec::list_stacks, about<spec::load_stack, spec::about_stack>},
    {"optimizer", "optimizers", "optimizer", spec::list_optimizers,
     about<spec::load_optimizer, spec::about_optimizer>},
    {"records", "records", "records", spec::list_records,
     about<spec::load_records, spec::about_records>},
    {"study", "studies", "", spec::list_studies, about<spec::load_study, spec::about_study>},
};

/// What is said of one thing: of a model more than in a list.
Result<std::string> details_of(const Library& library, const Kind& kind, const std::string& name) {
  if (kind.list == spec::list_models)
    return app::model_text(library, TPT_TRY(spec::load_model(library, name)));
  return kind.about(library, name);
}

/// All of a kind; one whose file cannot be read says so instead of ending the list.
DataTable list_table(const Library& library, const Kind& kind) {
  DataTable table = text_table({{"name", Align::left}, {"about", Align::left}});
  for (const std::string& name : kind.list(library)) {
    const Result<std::string> said = kind.about(library, name);
    table.add({name, said ? *said : "cannot be read: " + said.error().what});
  }
  return table;
}

/// What a file in the form of data/ describes; null for any other file.
const Kind* kind_of_file(const std::string& text, const std::string& path) {
  const auto root = spec::parse_toml(text, path);
  if (!root) return nullptr;
  for (const Kind& kind : kinds) {
    if (*kind.table == '\0') continue;
    const auto belongs = [&](const spec::TomlEntry& entry) {
      return entry.key == kind.table || entry.key == "source" || entry.key == "fit";
    };
    if (root->find(kind.table) != nullptr && std::ranges::all_of(root->entries, belongs))
      return &kind;
  }
  return nullptr;
}

/// The parts of a job with their sizes, the work of a step, and whether it fits.
std::string about_job(const spec::Job& job) {
  const workload::MemoryVerdict memory = workload::estimate_memory(job);
  const Bytes fullest = memory.stages[as_size(memory.worst_stage)].total();
  return fmt::format(
      "{}, {}\nmodel: {}\ncluster: {}\nstack: {}\nstep: {:.4g} PFLOP\nmemory: {}, {} of {} GiB on "
      "the fullest GPU (stage {})\n",
      answers::group_label(job), answers::configuration_label(job), app::model_text(job),
      spec::about_cluster(job.cluster), spec::about_stack(job.stack),
      workload::count_step_flops(job).model / unit::FLOP / 1e15,
      memory.fits() ? "fits" : "does not fit", significant(fullest / unit::GiB),
      significant(memory.limit / unit::GiB), memory.worst_stage);
}

class Show : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .word("NAME",
              "name of a model, GPU, cluster, stack, optimizer, records or study; all of a kind: "
              "models, gpus, clusters, stacks, optimizers, records, studies; or a file: one of "
              "these in TOML, a config.json, or a job",
              into(name_), {.words = Words::library, .required = true})
        .toggle("--names", "print only the names of a kind, one per line", names_)
        .add(launch_.arguments())
        .add(format_.argument());
  }

  Result<int> run(tui::Console& console) override {
    const Library library = TPT_TRY(spec::require_library());
    for (const Kind& kind : kinds)
      if (name_ == kind.folder) return list(library, kind, console);
    if (names_)
      return error(
          "{} is no kind of thing; --names goes with models, gpus, clusters, "
          "stacks, optimizers, records or studies",
          name_);
    Json all = Json::array();
    std::vector<std::string> known;
    for (const Kind& kind : kinds) {
      const std::vector<std::string> names = kind.list(library);
      known.insert(known.end(), names.begin(), names.end());
      if (holds(names, name_)) TPT_TRY(show_thing(library, kind, name_, console, all));
    }
    if (all.empty() && path_exists(name_))
      TPT_TRY(show_file(library, formats::config_in(name_), console, all));
    if (all.empty()) TPT_TRY(show_other_name(library, console, all));
    if (all.empty()) {
      const auto close = closest_word(name_, known);
      return error("nothing is called \"{}\", and there is no such file; {}", name_,
                   close ? fmt::format("did you mean \"{}\"?", *close)
                         : "triplepoint show models lists those of a kind");
    }
    if (format_.is_json()) print_json(console, {{"shown", std::move(all)}});
    return exit_ok;
  }

 private:
  Result<int> list(const Library& library, const Kind& kind, tui::Console& console) const {
    const std::vector<std::string> names = kind.list(library);
    if (names_) {  // nothing is read, so that completion is quick
      console.print(names.empty() ? "" : fmt::format("{}\n", fmt::join(names, "\n")));
      return exit_ok;
    }
    if (names.empty())
      return error(
          "no {} under {} (the data folder is missing or empty); set TRIPLEPOINT_DATA "
          "to the folder that holds models, gpus, clusters",
          kind.folder, library.root);
    const DataTable table = list_table(library, kind);
    format_.is_json() ? print_json(console, {{kind.folder, table_json(table)["rows"]}})
                      : console.print(tui::table_text(table, console));
    return exit_ok;
  }

  void show(const answers::Document& document, tui::Console& console, Json& all) const {
    all.push_back(answers::document_json(document));
    if (!format_.is_json()) tui::print_document(console, document);
  }

  /// Of what is known under the other name.
  Result<void> show_other_name(const Library& library, tui::Console& console, Json& all) const {
    for (const Kind& kind : kinds) {
      if (kind.list == spec::list_studies) continue;
      const auto name = TPT_TRY(spec::name_in_library(library, kind.folder, name_));
      if (!name.empty()) TPT_TRY(show_thing(library, kind, name, console, all));
    }
    return {};
  }

  Result<void> show_file(const Library& library, const std::string& file, tui::Console& console,
                         Json& all) const {
    if (is_folder(file))
      return error("{} is a folder without config.json; give a name or a file", file);
    const std::string text = TPT_TRY(read_file(file));
    if (const Kind* kind = kind_of_file(text, file))
      return show_thing(library, *kind, file, console, all);
    std::string kind = "job", about;
    formats::ImportHints hints;
    TPT_TRY(launch_.add_to(hints));
    std::vector<std::string> notes;
    if (formats::recognize(text) == formats::FileKind::hf_config) {
      kind = "model";
      const formats::NamedModel read = TPT_TRY(formats::read_model(library, file, hints));
      about = TPT_TRY(app::model_text(library, read.model));
      notes = read.notes;
    } else {
      const Result<spec::Job> read = formats::read_job(library, file, hints);
      if (!read)
        if (const auto use = app::use_of_trace(file)) return error(*use);
      const spec::Job job = TPT_TRY(read);
      TPT_TRY(spec::require_valid(job));
      about = about_job(job);
      notes = job.notes;
    }
    if (!format_.is_json()) {
      console.print(fmt::format("{} {}: {}\n", kind, file, about));
      for (const std::string& note : notes)
        console.print(fmt::format("note: {}\n", note));
    }
    all.push_back({{"kind", kind}, {"about", about}, {"notes", notes}, {"numbers", Json::array()}});
    return {};
  }

  Result<void> show_thing(const Library& library, const Kind& kind, const std::string& name,
                          tui::Console& console, Json& all) const {
    if (kind.list == spec::list_studies) {
      show(app::plan_document(TPT_TRY(spec::load_study(library, name))), console, all);
      return {};
    }
    const std::string file = name.ends_with(".toml") ? absolute_path(name).string()
                                                     : fmt::format("{}/{}", kind.folder, name);
    show(app::library_document(kind.word, name, TPT_TRY(details_of(library, kind, name)),
                               TPT_TRY(app::numbers_of(library, file))),
         console, all);
    return {};
  }

  std::string name_;
  LaunchFlags launch_;
  FormatFlag format_;
  bool names_ = false;
};

}  // namespace

std::unique_ptr<Command> make_show() {
  return std::make_unique<Show>();
}

}  // namespace triplepoint::cli
