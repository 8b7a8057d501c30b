// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/spec/library.h"

#include "triplepoint/app/site.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/job_flags.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::cli {
namespace {

/// Of web/explorer.html, where the page looks for a job.
constexpr std::string_view mark = "<!--job-->";

/// What the page begins with. A text between tags must not close them.
std::string job_element(const spec::Job& job) {
  std::string json =
      json_text({{"flags", Json::object()}, {"beginning", spec::write_job(job)}}, -1);
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
    const spec::Library library = TPT_TRY(spec::require_library());
    const spec::Job job = TPT_TRY(flags_.job(library));
    TPT_TRY(spec::require_valid(job));
    const std::size_t at = page.find(mark);
    if (at == page.npos)
      return error(
          "the explorer's page has no place for a job (it is of another version); run make explore "
          "again");
    page.replace(at, mark.size(), job_element(job));
    return write(console, page);
  }

 private:
  bool given_any() const { return flags_.has_file() || !flags_.require_no_job_but_cluster(); }

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
