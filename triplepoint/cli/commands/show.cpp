// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

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
#include "triplepoint/tui/document_text.h"
#include "triplepoint/workload/memory.h"
#include "triplepoint/workload/model_flops.h"

namespace triplepoint::cli {
namespace {

using spec::Library;

/// A kind of thing with a name, the folder its files lie in, and the table in such a file.
struct Kind {
  const char* word;
  const char* folder;
  const char* table;
  std::vector<std::string> (*list)(const Library&);
  Result<std::string> (*about)(const Library&, const std::string& name);
};

constexpr Kind kinds[] = {
    {"model", "models", "model", spec::list_models,
     [](const Library& l, const std::string& n) -> Result<std::string> {
       return app::model_text(l, TPT_TRY(spec::load_model(l, n)));
     }},
    {"GPU", "gpus", "gpu", spec::list_gpus,
     [](const Library& l, const std::string& n) -> Result<std::string> {
       return spec::about_gpu(TPT_TRY(spec::load_gpu(l, n)));
     }},
    {"cluster", "clusters", "cluster", spec::list_clusters,
     [](const Library& l, const std::string& n) -> Result<std::string> {
       return spec::about_cluster(TPT_TRY(spec::load_cluster(l, n)));
     }},
    {"stack", "stacks", "stack", spec::list_stacks,
     [](const Library& l, const std::string& n) -> Result<std::string> {
       return spec::about_stack(TPT_TRY(spec::load_stack(l, n)));
     }},
    {"optimizer", "optimizers", "optimizer", spec::list_optimizers,
     [](const Library& l, const std::string& n) -> Result<std::string> {
       return spec::about_optimizer(TPT_TRY(spec::load_optimizer(l, n)));
     }},
    {"records", "records", "records", spec::list_records,
     [](const Library& l, const std::string& n) -> Result<std::string> {
       return spec::about_records(TPT_TRY(spec::load_records(l, n)));
     }},
};

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// What a file in the form of data/ describes; null for any other file.
const Kind* kind_of_file(const std::string& text, const std::string& path) {
  const auto root = spec::parse_toml(text, path);
  if (!root) return nullptr;
  for (const Kind& kind : kinds) {
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
  const Bytes fullest = memory.stages[static_cast<std::size_t>(memory.worst_stage)].total();
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
              "of a model, GPU, cluster, stack, optimizer, records or study, or a file: one of "
              "these in TOML, "
              "a config.json, or a job",
              into(name_), {.words = Words::library, .required = true})
        .add(launch_.arguments())
        .add(format_.argument());
  }

  Result<int> run(tui::Console& console) override {
    const Library library = TPT_TRY(spec::require_library());
    Json all = Json::array();
    std::vector<std::string> known = spec::list_studies(library);
    if (contains(known, name_)) TPT_TRY(show_study(library, console, all));
    for (const Kind& kind : kinds) {
      const std::vector<std::string> names = kind.list(library);
      known.insert(known.end(), names.begin(), names.end());
      if (contains(names, name_)) TPT_TRY(show_thing(library, kind, name_, console, all));
    }
    if (all.empty() && path_exists(name_))
      TPT_TRY(show_file(library, formats::config_in(name_), console, all));
    if (all.empty()) TPT_TRY(show_other_name(library, console, all));
    if (all.empty()) {
      const auto close = closest_word(name_, known);
      return error(fmt::format("nothing is called \"{}\", and there is no such file; {}", name_,
                               close ? fmt::format("did you mean \"{}\"?", *close)
                                     : "triplepoint list prints the names of a kind"));
    }
    if (format_.is_json()) print_json(console, {{"shown", std::move(all)}});
    return exit_ok;
  }

 private:
  void show(const answers::Document& document, tui::Console& console, Json& all) const {
    all.push_back(answers::document_json(document));
    if (!format_.is_json()) tui::print_document(console, document);
  }

  Result<void> show_study(const Library& library, tui::Console& console, Json& all) const {
    const spec::StudyPlan plan = TPT_TRY(spec::load_study(library, name_));
    show(app::plan_document(plan), console, all);
    return {};
  }

  /// Of what is known under the other name.
  Result<void> show_other_name(const Library& library, tui::Console& console, Json& all) const {
    for (const Kind& kind : kinds)
      if (const auto name = TPT_TRY(spec::name_in_library(library, kind.folder, name_));
          !name.empty())
        TPT_TRY(show_thing(library, kind, name, console, all));
    return {};
  }

  Result<void> show_file(const Library& library, const std::string& file, tui::Console& console,
                         Json& all) const {
    if (is_folder(file))
      return error(fmt::format("{} is a folder without config.json; give a name or a file", file));
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
    const std::string file = name.ends_with(".toml") ? absolute_path(name).string()
                                                     : fmt::format("{}/{}", kind.folder, name);
    show(app::library_document(kind.word, name, TPT_TRY(kind.about(library, name)),
                               TPT_TRY(app::numbers_of(library, file))),
         console, all);
    return {};
  }

  std::string name_;
  LaunchFlags launch_;
  FormatFlag format_;
};

}  // namespace

std::unique_ptr<Command> make_show() {
  return std::make_unique<Show>();
}

}  // namespace triplepoint::cli
