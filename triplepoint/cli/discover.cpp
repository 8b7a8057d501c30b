// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/cli/bind.h"
#include "triplepoint/cli/cluster_draft.h"
#include "triplepoint/cli/format_flag.h"
#include "triplepoint/cli/read_job.h"
#include "triplepoint/cli/sensor_flags.h"
#include "triplepoint/cli/text_table.h"
#include "triplepoint/cli/verbs.h"

namespace triplepoint::cli {
namespace {

std::string ratio_text(const Comparison& one) {
  if (one.agrees()) return "agrees";
  return fmt::format("{:+.0f} %", (one.ratio - 1) * 100);
}

std::string comparison_table(const ClusterDraft& draft, const Console& console) {
  using Align = TextTable::Align;
  TextTable table({{"number", Align::left},
                   {"found", Align::right},
                   {draft.base, Align::right},
                   {"", Align::left},
                   {"source", Align::left}});
  for (const Comparison& one : draft.comparisons)
    table.add_row({one.what,
                   one.found,
                   one.library,
                   {ratio_text(one), one.agrees() ? Style::good : Style::warning},
                   one.source});
  return table.text(console);
}

Json as_json(const ClusterDraft& draft, const telemetry::NodeShape& shape) {
  Json comparisons = Json::array();
  for (const Comparison& one : draft.comparisons)
    comparisons.push_back({{"number", one.what},
                           {"found", one.found},
                           {"library", one.library},
                           {"ratio", one.ratio},
                           {"agrees", one.agrees()},
                           {"source", one.source}});
  return {{"host", shape.host},       {"model", shape.model},
          {"gpus", shape.gpus},       {"links", shape.links},
          {"nics", shape.nics},       {"base", draft.base},
          {"gpu", draft.gpu},         {"comparisons", std::move(comparisons)},
          {"remarks", draft.remarks}, {"toml", draft.toml}};
}

class Discover : public Command {
 public:
  std::vector<Argument> arguments() override {
    std::vector<Argument> all = {{.names = "-o,--output",
                                  .value = "FILE.toml",
                                  .help = "the cluster description (default: standard output)",
                                  .words = Words::files,
                                  .store = into(output_)},
                                 {.names = "--nccl-tests",
                                  .value = "FILE",
                                  .help = "what all_gather_perf and its sisters printed here; the "
                                          "links are checked against it",
                                  .words = Words::files,
                                  .store = into(tests_)},
                                 format_.argument()};
    for (Argument& argument : sensors_.arguments())
      if (argument.names == "--devices") all.push_back(std::move(argument));
    return all;
  }

  Result<int> run(Console& console) override {
    const spec::Library library = TPT_TRY(require_library());
    telemetry::SensorOptions options = sensors_.options();
    options.node_power = false;
    const telemetry::Sensors sensors = TPT_TRY(telemetry::open_sensors(options));
    const telemetry::NodeShape shape = TPT_TRY(telemetry::shape_of(sensors));
    const std::optional<trace::NcclTests> tests = TPT_TRY(read_tests());
    const ClusterDraft draft = TPT_TRY(draft_cluster(library, shape, tests));
    if (output_) TPT_TRY(write_file_atomically(*output_, draft.toml));
    if (format_.is_json()) {
      print_json(console, as_json(draft, shape));
      return exit_ok;
    }
    if (!output_) console.print(draft.toml);
    const std::string about = summary(draft, shape, console);
    output_ ? console.print(about) : console.warn(about);
    return exit_ok;
  }

 private:
  Result<std::optional<trace::NcclTests>> read_tests() const {
    if (!tests_) return std::optional<trace::NcclTests>();
    trace::Input input = TPT_TRY(trace::Input::open(*tests_));
    return std::optional(TPT_TRY(trace::parse_nccl_tests(input)));
  }
  std::string summary(const ClusterDraft& draft, const telemetry::NodeShape& shape,
                      const Console& console) const {
    std::string text = fmt::format("{}: {} x {}, described on top of {}\n", shape.host, shape.gpus,
                                   shape.model, draft.base);
    text += comparison_table(draft, console);
    for (const std::string& remark : draft.remarks)
      text += remark + "\n";
    if (output_)
      text += fmt::format("wrote {}; try: triplepoint simulate --cluster {} --model llama3-8b\n",
                          *output_, *output_);
    return text;
  }

  SensorFlags sensors_;
  FormatFlag format_;
  std::optional<std::string> output_, tests_;
};

}  // namespace

std::unique_ptr<Command> make_discover() {
  return std::make_unique<Discover>();
}

}  // namespace triplepoint::cli
