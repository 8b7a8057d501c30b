// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "triplepoint/base/json.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::cli {
namespace {

struct Line {
  std::string name, about;
};

/// What a list says about one name; a file that cannot be read says so instead of ending the list.
template <class T, class Say>
Line line_of(const std::string& name, const Result<T>& loaded, const Say& say) {
  return {name, loaded ? say(*loaded) : "cannot be read: " + loaded.error().what};
}

std::vector<Line> lines_of(const spec::Library& library, const std::string& kind) {
  std::vector<Line> lines;
  if (kind == "models")
    for (const auto& name : spec::list_models(library))
      lines.push_back(line_of(name, spec::load_model(library, name), spec::about_model));
  if (kind == "gpus")
    for (const auto& name : spec::list_gpus(library))
      lines.push_back(line_of(name, spec::load_gpu(library, name), spec::about_gpu));
  if (kind == "clusters")
    for (const auto& name : spec::list_clusters(library))
      lines.push_back(line_of(name, spec::load_cluster(library, name), spec::about_cluster));
  if (kind == "stacks")
    for (const auto& name : spec::list_stacks(library))
      lines.push_back(line_of(name, spec::load_stack(library, name), spec::about_stack));
  if (kind == "optimizers")
    for (const auto& name : spec::list_optimizers(library))
      lines.push_back(line_of(name, spec::load_optimizer(library, name), spec::about_optimizer));
  if (kind == "records")
    for (const auto& name : spec::list_records(library))
      lines.push_back(line_of(name, spec::load_records(library, name), spec::about_records));
  if (kind == "studies")
    for (const auto& name : spec::list_studies(library))
      lines.push_back(line_of(name, spec::load_study(library, name), spec::about_study));
  return lines;
}

/// Only the names, one a line: nothing is read, so that completion is quick.
std::string bare_names(const spec::Library& library, const std::string& kind) {
  const auto names = kind == "models"       ? spec::list_models(library)
                     : kind == "gpus"       ? spec::list_gpus(library)
                     : kind == "clusters"   ? spec::list_clusters(library)
                     : kind == "stacks"     ? spec::list_stacks(library)
                     : kind == "optimizers" ? spec::list_optimizers(library)
                     : kind == "records"    ? spec::list_records(library)
                                            : spec::list_studies(library);
  return names.empty() ? "" : fmt::format("{}\n", fmt::join(names, "\n"));
}

class List : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .word("KIND", "what to list", into(kind_),
              {.choices = {"models", "gpus", "clusters", "stacks", "optimizers", "records",
                           "studies"},
               .required = true})
        .add(format_.argument())
        .toggle("--names", "only the names, one per line", names_);
  }

  Result<int> run(tui::Console& console) override {
    const spec::Library library = TPT_TRY(spec::require_library());
    if (names_) {
      console.print(bare_names(library, kind_));
      return exit_ok;
    }
    const std::vector<Line> lines = lines_of(library, kind_);
    if (lines.empty()) {
      return error(
          fmt::format("no {} under {} (the data folder is missing or empty); set TRIPLEPOINT_DATA "
                      "to the folder that holds models, gpus, clusters",
                      kind_, library.root));
    }
    format_.is_json() ? print_json(console, {{kind_, as_json(lines)}})
                      : print_table(console, lines);
    return exit_ok;
  }

 private:
  static Json as_json(const std::vector<Line>& lines) {
    Json json = Json::array();
    for (const Line& line : lines)
      json.push_back({{"name", line.name}, {"about", line.about}});
    return json;
  }
  static void print_table(tui::Console& console, const std::vector<Line>& lines) {
    DataTable table = text_table({{"name", Align::left}, {"about", Align::left}});
    for (const Line& line : lines)
      table.add({line.name, line.about});
    console.print(tui::table_text(table, console));
  }

  std::string kind_;
  FormatFlag format_;
  bool names_ = false;
};

}  // namespace

std::unique_ptr<Command> make_list() {
  return std::make_unique<List>();
}

}  // namespace triplepoint::cli
