// SPDX-License-Identifier: Apache-2.0
// How does a cluster do in the standard suite?
#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/data_table.h"
#include "triplepoint/base/files.h"
#include "triplepoint/base/interrupt.h"
#include "triplepoint/base/json.h"

#include "triplepoint/spec/library.h"

#include "triplepoint/cli/flags/bind.h"
#include "triplepoint/cli/flags/format_flag.h"
#include "triplepoint/cli/flags/shared_flags.h"
#include "triplepoint/cli/verbs.h"
#include "triplepoint/formats/read_job.h"
#include "triplepoint/metrics/economics/score_card.h"
#include "triplepoint/report/pages/score_page.h"
#include "triplepoint/study/bench_cards.h"
#include "triplepoint/study/bench_play.h"

namespace triplepoint::cli {
namespace {

using metrics::JobResult;
using metrics::ScoreCard;
using metrics::Suite;
using report::ScoredCard;

std::string file_stem(const std::string& name) {
  std::string stem;
  for (const char c : name)
    if (c != ' ') stem += c == '/' ? '-' : c;
  return stem;
}

class Bench : public Command {
 public:
  std::vector<Argument> arguments() override {
    std::vector<Argument> all = {
        {.names = "SUITE",
         .help = "training-v1, node-v1, a suite file; or compare, and then cards",
         .words = Words::files,
         .required = true,
         .store = into(suite_)},
        {.names = "CARD",
         .help = "after compare: card.json files of bench",
         .words = Words::files,
         .repeats = true,
         .store = into(files_)}};
    for (auto part : {&Bench::cluster_arguments, &Bench::output_arguments})
      for (Argument& argument : (this->*part)())
        all.push_back(std::move(argument));
    return all;
  }

  Result<int> run(tui::Console& console) override {
    library_ = TPT_TRY(spec::require_library());
    if (suite_ == "compare") return compare(console);
    TPT_TRY(check_words());
    TPT_TRY(check_files());
    Suite suite = TPT_TRY(metrics::load_suite(library_, suite_));
    const Suite published = suite;
    take_overrides(suite);
    std::vector<ScoreCard> cards;
    for (const std::string& folder : runs_)
      cards.push_back(TPT_TRY(metrics_of_runs(console, suite, folder)));
    for (const std::string& cluster : clusters_) {
      Result<ScoreCard> card = played_card(console, suite, published, cluster);
      if (!card && interrupted()) return say_interrupted(console, card.error());
      cards.push_back(TPT_TRY(std::move(card)));
    }
    return finish(console, std::move(cards), suite);
  }

 private:
  std::vector<Argument> cluster_arguments() {
    const std::string group = "Which clusters";
    return {{.names = "--cluster",
             .value = "NAME",
             .help = "cluster to simulate; repeatable; NAME:N has N nodes",
             .group = group,
             .words = Words::clusters,
             .repeats = true,
             .store = into(clusters_)},
            {.names = "--nodes",
             .value = "N",
             .help = "of clusters without :N (default 1)",
             .group = group,
             .store = into_count(nodes_, 1)},
            {.names = "--runs",
             .value = "DIR",
             .help = "folder of .run files, measured or simulated; repeatable",
             .group = group,
             .words = Words::folders,
             .repeats = true,
             .store = into(runs_)},
            {.names = "--plans",
             .value = "DIR",
             .help = "folder with JOB.toml plans of the suite's jobs (default: search for plans)",
             .group = group,
             .words = Words::folders,
             .store = into(plans_)},
            {.names = "--names",
             .value = "A,B",
             .help = "names of the cards, --runs first (default: their clusters)",
             .group = group,
             .store = into(names_)}};
  }

  std::vector<Argument> output_arguments() {
    const std::string group = "Simulation and output";
    return {{.names = "--duration",
             .value = "TIME",
             .help = "instead of the suite's; shorter is unofficial",
             .group = group,
             .store = into_time(duration_, shortest_play, longest_play)},
            {.names = "--repeats",
             .value = "N",
             .help = "instead of the suite's; fewer is unofficial",
             .group = group,
             .store = into_count(repeats_, 1)},
            {.names = "--reference",
             .value = "CARD",
             .help = "card that scores 1 (default: the published reference, else the first card)",
             .group = group,
             .words = Words::files,
             .store = into(reference_)},
            {.names = "-o,--output",
             .value = "DIR",
             .help = "write card.html, each card's JSON and the jobs with their plans",
             .group = group,
             .words = Words::folders,
             .store = into(output_)},
            threads_.argument(group),
            format_.argument(group)};
  }

  Result<void> check_words() const {
    if (!files_.empty())
      return error(
          fmt::format("unexpected argument {} (only compare takes cards); for runs say "
                      "--runs {}",
                      files_[0], files_[0]));
    if (clusters_.empty() && runs_.empty())
      return error(
          "no cluster was named (a card is of one); try --cluster hgx-h200 --nodes 4, or "
          "--runs DIR");
    return {};
  }

  /// What would else be found out after all the work.
  Result<void> check_files() const {
    std::error_code ignored;
    if (plans_ && !std::filesystem::is_directory(*plans_, ignored))
      return error(
          fmt::format("--plans {} is no folder (JOB.toml files are looked for in it); "
                      "check the path, or leave it out and plans are searched for",
                      *plans_));
    if (reference_) TPT_TRY(card_in(*reference_));
    if (names_) TPT_TRY(card_names(runs_.size() + clusters_.size()));
    if (output_) TPT_TRY(make_folder(*output_));
    return {};
  }

  void take_overrides(Suite& suite) const {
    suite.duration = duration_.value_or(suite.duration);
    suite.repeats = repeats_.value_or(suite.repeats);
  }

  static int say_interrupted(tui::Console& console, const Error& why) {
    console.warn("triplepoint: " + why.what + "\n");
    return exit_interrupted;
  }

  Result<ScoreCard> metrics_of_runs(tui::Console& console, const Suite& suite,
                                    const std::string& folder) const {
    return study::card_of_runs(console, library_, suite, folder);
  }

  Result<spec::Cluster> cluster_named(const std::string& text) const {
    const std::size_t colon = text.rfind(':');
    const bool counted = colon != std::string::npos;
    spec::Cluster cluster = TPT_TRY(spec::load_cluster(library_, text.substr(0, colon)));
    cluster.num_nodes = nodes_.value_or(1);
    if (counted) cluster.num_nodes = TPT_TRY(parse_count(text.substr(colon + 1)));
    if (cluster.num_nodes >= 1) return cluster;
    return error(
        fmt::format("--cluster {} has no nodes (there would be no cluster); write "
                    "NAME:4",
                    text));
  }

  Result<ScoreCard> played_card(tui::Console& console, const Suite& suite, const Suite& published,
                                const std::string& name) const {
    const spec::Cluster cluster = TPT_TRY(cluster_named(name));
    study::BenchOptions options;
    options.threads = threads_.count();
    if (plans_) options.plans = Path(*plans_);
    study::PlayedCard played =
        TPT_TRY(study::play_suite(console, library_, suite, cluster, options));
    for (JobResult& job : played.card.jobs) {
      if (job.verdict != "ok") continue;
      if (suite.duration < published.duration)
        job.broken.push_back(fmt::format("{:.0f} s were asked for, not {:.0f} s",
                                         suite.duration / unit::s, published.duration / unit::s));
      if (suite.repeats < published.repeats)
        job.broken.push_back(
            fmt::format("{} repeats were asked for, not {}", suite.repeats, published.repeats));
    }
    if (output_) TPT_TRY(write_jobs(played));
    return std::move(played.card);
  }

  Result<void> write_jobs(const study::PlayedCard& played) const {
    const Path folder = Path(*output_) / file_stem(played.card.name);
    TPT_TRY(make_folder(folder));
    for (const auto& [name, job] : played.jobs)
      TPT_TRY(write_file_atomically(folder / (name + ".toml"), spec::write_job(job, library_)));
    return {};
  }

  Result<ScoreCard> card_in(const std::string& file) const {
    const std::string text = TPT_TRY(read_file(file));
    const Json json = TPT_TRY(parse_json(text, file));
    return metrics::card_from_json(json, file);
  }

  Result<int> compare(tui::Console& console) {
    if (!clusters_.empty() || !runs_.empty() || plans_ || nodes_ || duration_ || repeats_)
      return error(
          "compare takes only cards (they contain the simulated settings); leave --cluster, --runs "
          "and what "
          "belongs to them out");
    if (files_.size() < 2)
      return error(
          "compare needs two cards or more (one has nothing to be compared with); name "
          "card files of triplepoint bench -o");
    std::vector<ScoreCard> cards;
    for (const std::string& file : files_)
      cards.push_back(TPT_TRY(card_in(file)));
    for (std::size_t i = 1; i < cards.size(); ++i)
      if (cards[i].suite != cards[0].suite)
        return error(
            fmt::format("{} is of {}, {} of {} (scores of different suites are not "
                        "comparable); name cards of one suite",
                        files_[0], cards[0].suite, files_[i], cards[i].suite));
    const Suite suite = TPT_TRY(metrics::load_suite(library_, cards[0].suite));
    return finish(console, std::move(cards), suite);
  }

  /// The card that scores 1: as asked for, else published with the suite, else the first.
  Result<ScoreCard> reference_for(const std::vector<ScoreCard>& cards, const Suite& suite) const {
    if (reference_) return card_in(*reference_);
    const Path file = Path(library_.root) / "suites" / (suite.label() + ".reference.json");
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored)) return card_in(file.string());
    return cards.front();
  }

  Result<std::vector<std::string>> card_names(std::size_t cards) const {
    std::vector<std::string> names = TPT_TRY(split_list(*names_));
    if (names.size() == cards) return names;
    return error(
        fmt::format("--names has {} names for {} cards (each is called something); give "
                    "one for each",
                    names.size(), cards));
  }

  Result<void> rename(std::vector<ScoreCard>& cards) const {
    if (!names_) return {};
    const std::vector<std::string> names = TPT_TRY(card_names(cards.size()));
    for (std::size_t i = 0; i < cards.size(); ++i)
      cards[i].name = names[i];
    return {};
  }

  Result<int> finish(tui::Console& console, std::vector<ScoreCard> plain,
                     const Suite& suite) const {
    TPT_TRY(rename(plain));
    const ScoreCard reference = TPT_TRY(reference_for(plain, suite));
    std::vector<ScoredCard> cards;
    for (ScoreCard& card : plain) {
      metrics::CardScore score = metrics::score(card, reference, suite);
      cards.push_back({std::move(card), std::move(score)});
    }
    if (output_) TPT_TRY(write_files(cards, reference, suite));
    if (format_.is_json())
      print_json(console, study::cards_json(cards, reference, suite));
    else if (format_.is_csv())
      console.print(table_csv(study::cards_table(cards, suite)));
    else
      study::print_cards(console, cards, reference, suite);
    return exit_ok;
  }

  Result<void> write_files(const std::vector<ScoredCard>& cards, const ScoreCard& reference,
                           const Suite& suite) const {
    const Path folder(*output_);
    TPT_TRY(make_folder(folder));
    TPT_TRY(
        write_file_atomically(folder / "card.html", report::score_page(cards, reference, suite)));
    for (const ScoredCard& scored : cards)
      TPT_TRY(
          write_file_atomically(folder / (file_stem(scored.card.name) + ".json"),
                                json_text(metrics::card_json(scored.card, &scored.score)) + "\n"));
    return {};
  }

  spec::Library library_;
  std::string suite_;
  FormatFlag format_{FormatFlag::Csv::yes};
  ThreadsFlag threads_{"threads to search and simulate (default: all cores)"};
  std::vector<std::string> files_, clusters_, runs_;
  std::optional<std::string> plans_, names_, reference_, output_;
  std::optional<int64_t> nodes_, repeats_;
  std::optional<Seconds> duration_;
};

}  // namespace

std::unique_ptr<Command> make_bench() {
  return std::make_unique<Bench>();
}

}  // namespace triplepoint::cli
