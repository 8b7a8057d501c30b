// SPDX-License-Identifier: Apache-2.0
// Which stages belong on which GPUs, when some sit warmer than others?
#include "triplepoint/advise/place.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/interrupt.h"
#include "triplepoint/base/json.h"

#include "triplepoint/spec/job_checks.h"
#include "triplepoint/spec/library.h"

#include "triplepoint/advise/place_machine.h"
#include "triplepoint/advise/place_tables.h"
#include "triplepoint/advise/thermal_groups.h"
#include "triplepoint/cli/flags/bind.h"
#include "triplepoint/cli/flags/format_flag.h"
#include "triplepoint/cli/flags/job_flags.h"
#include "triplepoint/cli/flags/shared_flags.h"
#include "triplepoint/cli/verbs.h"
#include "triplepoint/formats/read_job.h"
#include "triplepoint/report/figures/placement_figure.h"
#include "triplepoint/report/findings/labels.h"
#include "triplepoint/report/job_name.h"
#include "triplepoint/sim/simulate.h"
#include "triplepoint/study/place_telemetry.h"
#include "triplepoint/tui/data_table_text.h"
#include "triplepoint/tui/progress.h"
#include "triplepoint/tui/text_table.h"

namespace triplepoint::cli {
namespace {

using advise::ThermalSample;
using study::Telemetry;

class Place : public Command {
 public:
  std::vector<Argument> arguments() override {
    std::vector<Argument> all = search_arguments();
    for (Argument& argument : flags_.arguments())
      all.push_back(std::move(argument));
    return all;
  }

  Result<int> run(tui::Console& console) override {
    TPT_TRY(check_words());
    Telemetry seen = TPT_TRY(study::read_telemetry(from_, choice_));
    const spec::Library library = TPT_TRY(spec::require_library());
    const bool named = !flags_.require_no_job_but_cluster().has_value();
    if (!named && !seen.job && from_.empty())
      return error(
          "no job and no telemetry (there is nothing to place); name a job, or --from recordings");
    if (!named && !seen.job) return print_groups(console, group(seen.samples, std::nullopt));
    spec::Job job = seen.job && !named ? *seen.job : TPT_TRY(flags_.job(library));
    if (auto valid = spec::require_valid(job); !valid) return tl::unexpected(valid.error());
    TPT_TRY(spec::require_training(job, "placements are searched"));
    if (job.name.empty()) job.name = report::default_name(job);
    return place_job(console, library, job, seen);
  }

 private:
  Result<void> check_words() const {
    if (hosts_ && !output_)
      return error("--hosts belongs to -o (nothing else names nodes); add -o DIR, or leave it out");
    if (choice_.row && std::none_of(from_.begin(), from_.end(), study::is_thermal_table))
      return error(
          "--row belongs to a CSV table (nothing else has rows of that name); add --from "
          "FILE.csv, or leave it out");
    if (output_) TPT_TRY(make_folder(*output_));
    return {};
  }

  std::vector<Argument> search_arguments() {
    const std::string group = "Input, search and output";
    return {
        {.names = "--from",
         .value = "FILE",
         .help = "runs, folders of the paper's artifact, or CSV tables with GPU temperatures; "
                 "repeatable (default: the job is simulated)",
         .group = group,
         .words = Words::files,
         .store = into(from_)},
        {.names = "--row",
         .value = "NAME",
         .help = "of a CSV table: its config or snapshot_id",
         .group = group,
         .store = into(choice_.row)},
        {.names = "--by",
         .value = "SIGN",
         .help = "signal to group GPUs by (default: temperature, else clock, else throttling)",
         .group = group,
         .choices = {"temperature", "clock", "throttling"},
         .store = into(by_)},
        {.names = "--max-shift",
         .value = "K",
         .help =
             "maximum number of layers that an asymmetric placement moves per stage (default 3)",
         .group = group,
         .store = into_count(shift_, 1)},
        {.names = "--judge",
         .value = "N",
         .help = "maximum number of placements that the search simulates (default 4000)",
         .group = group,
         .store = into_count(judged_, 1)},
        {.names = "--hosts",
         .value = "LIST",
         .help = "names of the nodes, for the host file",
         .group = group,
         .store = into(hosts_)},
        {.names = "-o,--output",
         .value = "DIR",
         .help = "write each placement as job.toml, megatron.sh, nemo.yaml, devices.sh, "
                 "hostfile, and a "
                 "picture of all",
         .group = group,
         .words = Words::folders,
         .store = into(output_)},
        threads_.argument(group),
        format_.argument(group)};
  }

  advise::GroupedMachine group(const std::vector<ThermalSample>& samples,
                               const std::optional<double>& slope) const {
    advise::GroupingOptions options;
    options.kelvin_per_watt = slope;
    for (const auto sign : {advise::ThermalSign::temperature, advise::ThermalSign::clock,
                            advise::ThermalSign::throttling})
      if (by_ == name_of(sign)) options.sign = sign;
    advise::GroupedMachine seen{.devices = advise::mean_samples(samples),
                                .groups = advise::find_thermal_groups(samples, options),
                                .source = "simulated"};
    if (!from_.empty()) seen.source = "from " + Path(from_.front()).filename().string();
    if (from_.size() > 1) seen.source += fmt::format(" and {} more", from_.size() - 1);
    return seen;
  }

  /// Without a job: what separates the GPUs, and the order that puts cold ones first.
  Result<int> print_groups(tui::Console& console, const advise::GroupedMachine& seen) {
    if (format_.is_json()) {
      print_json(console, {{"thermal_groups", advise::groups_json(seen)}});
    } else if (format_.is_csv()) {
      console.print(table_csv(advise::groups_table(seen)));
    } else {
      print_seen(console, seen);
      print_line(console,
                 "No job was given, so nothing was placed; name one to estimate the gain.");
    }
    return exit_ok;
  }

  static void print_line(tui::Console& console, const std::string& text) {
    console.print(tui::wrap(text, console.abilities().width.value_or(100), "  ") + "\n");
  }

  static void print_seen(tui::Console& console, const advise::GroupedMachine& seen) {
    console.print(tui::table_text(advise::groups_table(seen), console));
    print_line(console, advise::grouping_text(seen.groups));
    if (seen.groups.groups.size() > 1)
      print_line(console, "Cold first: CUDA_VISIBLE_DEVICES=" + advise::slots_text(seen));
  }

  Result<int> place_job(tui::Console& console, const spec::Library& library, const spec::Job& job,
                        const Telemetry& telemetry) {
    if (job.cluster.shared_cores > 0)
      return error(
          "the cluster is emulated on shared cores (its ranks have no separate heat); place a "
          "job on GPUs");
    TPT_TRY(study::require_same_size(job, telemetry.samples));
    const auto slope = advise::kelvin_per_watt(job.cluster.gpu);
    spec::Job machine = job;
    std::optional<advise::MatchedMachine> matched;
    std::vector<ThermalSample> samples = telemetry.samples;
    if (from_.empty()) {
      samples = advise::thermal_samples(sim::simulate(job, {}));
      if (samples.empty() || !samples.front().temperature_c)
        return error(
            fmt::format("{} does not fit in memory (nothing runs that could be warm); see "
                        "triplepoint simulate",
                        job.name));
    } else {
      matched = advise::match_machine(job, advise::mean_samples(samples));
      machine = matched->job;
    }
    const advise::GroupedMachine seen = group(samples, slope);
    const advise::ColdMap map = advise::cold_map(seen.groups, seen.devices, job);
    advise::PlaceResult result = find_placements(console, machine, map);
    if (matched) result.notes.push_back(match_note(*matched));
    if (output_) TPT_TRY(write(console, library, result, job, telemetry));
    print(console, job, seen, result);
    if (!interrupted()) return exit_ok;
    console.warn("triplepoint: interrupted; what is shown is the best found until then\n");
    return exit_interrupted;
  }

  static std::string match_note(const advise::MatchedMachine& matched) {
    return fmt::format(
        "the simulated machine was made as warm as the measured one: its GPUs are {:.1f} K from "
        "them on average (rms), {:.1f} K before",
        matched.after_k, matched.before_k);
  }

  advise::PlaceResult find_placements(tui::Console& console, const spec::Job& job,
                                      const advise::ColdMap& map) const {
    std::unique_ptr<tui::Progress> bar;
    advise::PlaceOptions options;
    options.largest_shift = shift_.value_or(options.largest_shift);
    options.most_judged = judged_.value_or(options.most_judged);
    options.threads = threads_.count();
    options.begin = [&](const char* what, size_t total) {
      bar.reset();
      bar = std::make_unique<tui::Progress>(console, what, total);
    };
    options.advance = [&] { bar->advance(); };
    options.stopped = [] { return interrupted(); };
    return advise::place(job, map, options);
  }

  Result<bool> write(tui::Console& console, const spec::Library& library,
                     const advise::PlaceResult& result, const spec::Job& job,
                     const Telemetry& telemetry) const {
    std::vector<std::string> hosts = telemetry.hosts;
    if (hosts_) hosts = TPT_TRY(split_list(*hosts_));
    if (hosts_ && static_cast<int64_t>(hosts.size()) != job.cluster.num_nodes)
      return error(
          fmt::format("--hosts names {} nodes, the job has {} (each needs a name); name "
                      "them all",
                      hosts.size(), job.cluster.num_nodes));
    const auto files = TPT_TRY(advise::write_placements(*output_, library, result, job, hosts));
    const std::string title =
        fmt::format("{}, {}", report::group_label(job), report::configuration_label(job));
    if (auto drawn = write_file_atomically(Path(*output_) / "placements.svg",
                                           report::placement_figure(result, title));
        !drawn)
      return tl::unexpected(drawn.error());
    console.warn(fmt::format("{} placements in {} files, and placements.svg, in {}\n",
                             result.placements.size(), files.size(), *output_));
    return true;
  }

  void print(tui::Console& console, const spec::Job& job, const advise::GroupedMachine& seen,
             const advise::PlaceResult& result) const {
    if (format_.is_json()) {
      Json json = advise::place_json(seen, result);
      json["job"] = job.name;
      print_json(console, json);
      return;
    }
    const DataTable table = advise::placements_table(result);
    if (format_.is_csv()) {
      console.print(table_csv(table));
      return;
    }
    console.print(
        fmt::format("{}, {}\n\n", report::group_label(job), report::configuration_label(job)));
    print_seen(console, seen);
    console.print("\n" + tui::table_text(table, console));
    if (result.placements.size() > 1) {
      console.print("\n" + tui::table_text(advise::reasons_table(result), console));
      if (const std::string text = advise::transfer_text(result); !text.empty())
        print_line(console, text);
      print_line(console, counts_text(result.counts));
    }
    for (const std::string& note : result.notes)
      print_line(console, "Note: " + note + ".");
    console.print("\nTo launch the optimal placement\n");
    for (const std::string& line : advise::launch_lines(result.placements.back().job))
      print_line(console, "  " + line);
  }

  JobFlags flags_;
  std::vector<std::string> from_;
  advise::TableChoice choice_;
  std::optional<std::string> hosts_, output_;
  std::optional<int64_t> shift_, judged_;
  std::string by_;
  FormatFlag format_{FormatFlag::Csv::yes};
  ThreadsFlag threads_{"threads to simulate (default: all cores)"};
};

}  // namespace

std::unique_ptr<Command> make_place() {
  return std::make_unique<Place>();
}

}  // namespace triplepoint::cli
