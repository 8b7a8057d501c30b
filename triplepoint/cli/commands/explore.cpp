// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/answers/run_figures.h"
#include "triplepoint/app/learning.h"
#include "triplepoint/app/site.h"
#include "triplepoint/app/sources.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/job_flags.h"
#include "triplepoint/report/pages/document_page.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::cli {
namespace {

/// Of web/explorer.html, where the page looks for a job.
constexpr std::string_view mark = "<!--job-->";

/// A text between tags must not close them.
std::string job_element(const Json& beginning) {
  std::string json = json_text(beginning, -1);
  for (std::size_t at = json.find('<'); at != json.npos; at = json.find('<', at))
    json.replace(at, 1, "\\u003c");
  return fmt::format("<script type=\"application/json\" id=\"job\">{}</script>", json);
}

class Explore : public Command {
 public:
  Arguments arguments() override {
    return flags_.arguments().group("Output").flag("-o,--output", "FILE.html",
                                                   "the page (default explore.html)", into(output_),
                                                   {.words = Words::files});
  }

  Result<int> run(tui::Console& console) override {
    std::string page = TPT_TRY(app::explorer_page());
    if (!given_any()) return write(console, page);
    const Json beginning = TPT_TRY(what_it_begins_with());
    const std::size_t at = page.find(mark);
    if (at == page.npos)
      return error(
          "the explorer's page has no place for a job (it is of another version); run make explore "
          "again");
    page.replace(at, mark.size(), job_element(beginning));
    return write(console, page);
  }

 private:
  bool given_any() const { return flags_.has_file() || flags_.name_a_job(); }

  /// The job; with what its place taught, as the file that --with reads; and what was measured of
  /// it.
  Result<Json> what_it_begins_with() const {
    const spec::Job job = TPT_TRY(flags_.job_as_shipped(TPT_TRY(spec::require_library())));
    TPT_TRY(spec::require_valid(job));
    Json begins{{"flags", Json::object()}, {"beginning", spec::write_job(job)}};
    if (const auto own = TPT_TRY(flags_.own_runs())) {
      const std::string& folder = *flags_.own_runs_folder();
      const std::string file = learn::Calibration::file_of(folder);
      begins["flags"]["--with"] = folder;
      begins["files"][file] = TPT_TRY(read_file(file));
      begins["learned"] = report::section_html(app::learned_coefficients(*own));
    }
    if (flags_.has_file() && app::kind_of_source(flags_.file()) == app::SourceKind::run)
      begins["measured"] = measured(TPT_TRY(app::load_run_source({flags_.file()})));
    return begins;
  }

  /// Key figures by label; none of a prediction.
  static Json measured(const run::Run& run) {
    Json figures = Json::object();
    if (run.manifest.origin == run::Origin::simulated) return figures;
    for (const answers::KeyFigure& each : answers::key_figures(run, metrics::measure(run)))
      figures[each.label] = each.value;
    return figures;
  }

  Result<int> write(tui::Console& console, const std::string& page) const {
    TPT_TRY(write_file_atomically(output_, page));
    console.print(fmt::format("{}: open it in a browser\n", output_));
    return exit_ok;
  }

  JobFlags flags_;
  std::string output_ = "explore.html";
};

}  // namespace

std::unique_ptr<Command> make_explore() {
  return std::make_unique<Explore>();
}

}  // namespace triplepoint::cli
