// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/json.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/answers/results.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::cli {
namespace {

// Of the object that --format json prints of a run; all others are files.
constexpr const char* results_kind = "results";

class Schema : public Command {
 public:
  Arguments arguments() override {
    std::vector<std::string> kinds = spec::schema_kinds();
    kinds.emplace_back(results_kind);
    return Arguments().word("KIND", "what the file describes", into(kind_),
                            {.choices = std::move(kinds), .required = true});
  }

  Result<int> run(tui::Console& console) override {
    if (kind_ == results_kind) {
      console.print(json_text(answers::results_schema()) + "\n");
      return exit_ok;
    }
    const spec::Library library = TPT_TRY(spec::require_library());
    console.print(json_text(spec::file_schema(library, kind_)) + "\n");
    return exit_ok;
  }

 private:
  std::string kind_;
};

}  // namespace

std::unique_ptr<Command> make_schema() {
  return std::make_unique<Schema>();
}

}  // namespace triplepoint::cli
