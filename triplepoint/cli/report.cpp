// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
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
#include "triplepoint/cli/trace_input.h"
#include "triplepoint/cli/verbs.h"
#include "triplepoint/report/run_page.h"
#include "triplepoint/report/study_page.h"

namespace triplepoint::cli {
namespace {

/// A folder that characterize made, or one of runs; else it is a folder of traces.
bool is_study(const Path& folder) {
  std::error_code ignored;
  if (std::filesystem::exists(folder / "study.json", ignored)) return true;
  const auto runs = list_files(folder, ".run");
  const auto all = list_files(folder, "");
  return (runs && !runs->empty()) || !all || all->empty();
}

/// "ranks" of ranks.tar.gz, "rank0" of rank0.pt.trace.json.gz.
std::string stem_of_trace(Path file) {
  constexpr std::string_view endings[] = {".gz", ".zst", ".tar", ".json", ".trace", ".pt"};
  const auto ends = [&](std::string_view ending) { return file.extension() == ending; };
  while (std::any_of(std::begin(endings), std::end(endings), ends))
    file.replace_extension();
  return file.filename().string();
}

class Report : public Command {
 public:
  std::vector<Argument> arguments() override {
    return {{.names = "SOURCE",
             .help = "a .run file, a folder that characterize made, or traces: files, folders or "
                     "tars of ranks",
             .words = Words::files,
             .required = true,
             .repeats = true,
             .store = into(sources_)},
            {.names = "-o,--output",
             .value = "FILE.html",
             .help = "the page (default: beside the run, or report.html in the folder)",
             .words = Words::files,
             .store = into(output_)},
            format_.argument()};
  }

  Result<int> run(Console& console) override {
    const Kind kind = kind_of_sources();
    const Path page = output_ ? Path(*output_) : default_page(kind);
    const std::string html = TPT_TRY(kind == Kind::study ? page_of_study()
                                     : kind == Kind::run ? page_of_run()
                                                         : page_of_traces());
    TPT_TRY(write_file_atomically(page, html));
    if (format_.is_json()) {
      print_json(console, {{"source", sources_.front()}, {"page", page.string()}});
    } else {
      console.print(fmt::format("wrote {}\n", page.string()));
    }
    return exit_ok;
  }

 private:
  enum class Kind { study, run, traces };

  Kind kind_of_sources() const {
    if (sources_.size() > 1) return Kind::traces;
    std::error_code ignored;
    if (!std::filesystem::is_directory(sources_[0], ignored))
      return sources_[0].ends_with(".run") ? Kind::run : Kind::traces;
    return is_study(sources_[0]) ? Kind::study : Kind::traces;
  }
  /// Beside what it shows: "ranks.html" of ranks.tar.gz, "report.html" in a folder.
  Path default_page(Kind kind) const {
    const Path first(sources_[0]);
    std::error_code ignored;
    if (std::filesystem::is_directory(first, ignored)) return first / "report.html";
    return kind == Kind::run ? Path(first).replace_extension(".html")
                             : first.parent_path() / (stem_of_trace(first) + ".html");
  }

  Result<std::string> page_of_study() const {
    const spec::Library library = TPT_TRY(require_library());
    return report::study_page(
        TPT_TRY(load_results(library, sources_[0], available_threads())).study);
  }
  Result<std::string> page_of_run() const {
    const run::Run run = TPT_TRY(run::load(sources_[0]));
    return report::run_page(run, metrics::measure(run));
  }
  Result<std::string> page_of_traces() const {
    TraceInput input = TPT_TRY(read_trace_input(sources_, {}, trace::HostSpans::ops));
    run::Run& run = input.run;
    if (run.manifest.producer.empty()) run.manifest.producer = "triplepoint, from " + input.format;
    std::move(input.remarks.begin(), input.remarks.end(), std::back_inserter(run.manifest.notes));
    return report::run_page(run, metrics::measure(run));
  }

  std::vector<std::string> sources_;
  std::optional<std::string> output_;
  FormatFlag format_;
};

}  // namespace

std::unique_ptr<Command> make_report() {
  return std::make_unique<Report>();
}

}  // namespace triplepoint::cli
