// SPDX-License-Identifier: Apache-2.0
// How does a cluster do in the standard suite?
#include "triplepoint/base/json.h"
#include "triplepoint/base/process.h"

#include "triplepoint/spec/library.h"

#include "triplepoint/cli/command.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/study/bench_cards.h"
#include "triplepoint/study/bench_play.h"

namespace triplepoint::cli {
namespace {

class Bench : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .word("SUITE", "training-v1, node-v1, a suite file; or compare, and then cards",
              into(suite_),
              {.offers = {"training-v1", "node-v1", "compare"},
               .words = Words::files,
               .required = true})
        .word("CARD", "after compare: card.json files of bench", into(request_.files),
              {.words = Words::files, .repeats = true})
        .group("Which clusters")
        .flag("--cluster", "NAME", "cluster to simulate; repeatable; NAME:N has N nodes",
              into(request_.clusters), {.words = Words::clusters, .repeats = true})
        .flag("--nodes", "N", "of clusters without :N (default 1)", into_count(request_.nodes, 1))
        .flag("--runs", "DIR", "folder of .run files, measured or simulated; repeatable",
              into(request_.runs), {.words = Words::folders, .repeats = true})
        .flag("--plans", "DIR",
              "folder with JOB.toml plans of the suite's jobs (default: search for plans)",
              into(request_.plans), {.words = Words::folders})
        .flag("--names", "A,B", "names of the cards, --runs first (default: their clusters)",
              into(request_.names))
        .group("Simulation and output")
        .flag("--duration", "TIME", "instead of the suite's; shorter is unofficial",
              into_time(request_.duration, shortest_play, longest_play))
        .flag("--repeats", "N", "instead of the suite's; fewer is unofficial",
              into_count(request_.repeats, 1))
        .flag("--reference", "CARD",
              "card that scores 1 (default: the published reference, else the first card)",
              into(request_.reference), {.words = Words::files})
        .flag("-o,--output", "DIR",
              "write card.html, each card's JSON and the jobs with their plans",
              into(request_.output), {.words = Words::folders})
        .add(threads_.argument())
        .add(format_.argument());
  }

  Result<int> run(tui::Console& console) override {
    const spec::Library library = TPT_TRY(spec::require_library());
    request_.threads = threads_.count();
    const Result<study::Scoring> scoring =
        suite_ == "compare" ? study::compare_cards(library, request_)
                            : study::run_bench(console, library, suite_, request_);
    if (!scoring && interrupted()) {
      console.warn("triplepoint: " + scoring.error().what + "\n");
      return exit_interrupted;
    }
    if (!scoring) return tl::unexpected(scoring.error());
    if (request_.output) TPT_TRY(study::write_cards(*scoring, *request_.output));
    if (format_.is_json())
      print_json(console, study::cards_json(*scoring));
    else if (format_.is_csv())
      console.print(table_csv(study::cards_table(*scoring)));
    else
      study::print_cards(console, *scoring);
    return exit_ok;
  }

 private:
  std::string suite_;
  study::BenchRequest request_;
  FormatFlag format_{FormatFlag::Csv::yes};
  ThreadsFlag threads_{"threads to search and simulate (default: all cores)"};
};

}  // namespace

std::unique_ptr<Command> make_bench() {
  return std::make_unique<Bench>();
}

}  // namespace triplepoint::cli
