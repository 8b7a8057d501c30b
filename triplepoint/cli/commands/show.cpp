// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/library.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags/bind.h"
#include "triplepoint/cli/flags/shared_flags.h"
#include "triplepoint/formats/import.h"
#include "triplepoint/study/library_text.h"

namespace triplepoint::cli {
namespace {

using spec::Library;

/// A kind of thing with a name, and the folder its files lie in.
struct Kind {
  const char* word;
  const char* folder;
  std::vector<std::string> (*list)(const Library&);
  Result<std::string> (*about)(const Library&, const std::string& name);
};

constexpr Kind kinds[] = {
    {"model", "models", spec::list_models,
     [](const Library& l, const std::string& n) -> Result<std::string> {
       return spec::about_model(TPT_TRY(spec::load_model(l, n)));
     }},
    {"GPU", "gpus", spec::list_gpus,
     [](const Library& l, const std::string& n) -> Result<std::string> {
       return spec::about_gpu(TPT_TRY(spec::load_gpu(l, n)));
     }},
    {"cluster", "clusters", spec::list_clusters,
     [](const Library& l, const std::string& n) -> Result<std::string> {
       return spec::about_cluster(TPT_TRY(spec::load_cluster(l, n)));
     }},
    {"stack", "stacks", spec::list_stacks,
     [](const Library& l, const std::string& n) -> Result<std::string> {
       return spec::about_stack(TPT_TRY(spec::load_stack(l, n)));
     }},
    {"optimizer", "optimizers", spec::list_optimizers,
     [](const Library& l, const std::string& n) -> Result<std::string> {
       return spec::about_optimizer(TPT_TRY(spec::load_optimizer(l, n)));
     }},
};

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

class Show : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .word("NAME", "of a model, GPU, cluster, stack, optimizer or study", into(name_),
              {.required = true})
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
      if (contains(names, name_)) TPT_TRY(show_thing(library, kind, console, all));
    }
    if (all.empty()) {
      const auto close = closest_word(name_, known);
      return error(fmt::format("nothing is called \"{}\"; {}", name_,
                               close ? fmt::format("did you mean \"{}\"?", *close)
                                     : "triplepoint list prints the names of a kind"));
    }
    if (format_.is_json()) print_json(console, {{"shown", std::move(all)}});
    return exit_ok;
  }

 private:
  Result<void> show_study(const Library& library, tui::Console& console, Json& all) const {
    const spec::StudyPlan plan = TPT_TRY(spec::load_study(library, name_));
    all.push_back(study::study_json(plan));
    if (!format_.is_json()) study::print_study(console, plan);
    return {};
  }

  Result<void> show_thing(const Library& library, const Kind& kind, tui::Console& console,
                          Json& all) const {
    const study::LibraryEntry shown{
        kind.word, TPT_TRY(kind.about(library, name_)),
        TPT_TRY(spec::provenance(library, fmt::format("{}/{}", kind.folder, name_)))};
    all.push_back(study::shown_json(shown));
    if (!format_.is_json()) study::print_shown(console, name_, shown);
    return {};
  }

  std::string name_;
  FormatFlag format_;
};

}  // namespace

std::unique_ptr<Command> make_show() {
  return std::make_unique<Show>();
}

}  // namespace triplepoint::cli
