// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/parallel.h"

#include "triplepoint/run/store.h"

#include "triplepoint/cli/bind.h"
#include "triplepoint/cli/format_flag.h"
#include "triplepoint/cli/read_job.h"
#include "triplepoint/cli/study_runner.h"
#include "triplepoint/cli/verbs.h"
#include "triplepoint/report/run_page.h"
#include "triplepoint/report/study_page.h"

namespace triplepoint::cli {
namespace {

class Report : public Command {
 public:
  std::vector<Argument> arguments() override {
    return {{.names = "SOURCE",
             .help = "a .run file, or a folder that characterize made",
             .words = Words::files,
             .required = true,
             .store = into(source_)},
            {.names = "-o,--output",
             .value = "FILE.html",
             .help = "the page (default: beside the run, or report.html in the folder)",
             .words = Words::files,
             .store = into(output_)},
            format_.argument()};
  }

  Result<int> run(Console& console) override {
    std::error_code ignored;
    const bool is_folder = std::filesystem::is_directory(source_, ignored);
    const Path page = output_     ? Path(*output_)
                      : is_folder ? Path(source_) / "report.html"
                                  : Path(source_).replace_extension(".html");
    const std::string html = TPT_TRY(is_folder ? page_of_folder() : page_of_run());
    TPT_TRY(write_file_atomically(page, html));
    if (format_.is_json()) {
      print_json(console, {{"source", source_}, {"page", page.string()}});
    } else {
      console.print(fmt::format("wrote {}\n", page.string()));
    }
    return exit_ok;
  }

 private:
  Result<std::string> page_of_folder() const {
    const spec::Library library = TPT_TRY(require_library());
    return report::study_page(TPT_TRY(load_results(library, source_, available_threads())).study);
  }
  Result<std::string> page_of_run() const {
    const run::Run run = TPT_TRY(run::load(source_));
    return report::run_page(run, metrics::measure(run));
  }

  std::string source_;
  std::optional<std::string> output_;
  FormatFlag format_;
};

}  // namespace

std::unique_ptr<Command> make_report() {
  return std::make_unique<Report>();
}

}  // namespace triplepoint::cli
