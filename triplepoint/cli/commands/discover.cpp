// SPDX-License-Identifier: Apache-2.0
#include <sstream>

#include "triplepoint/base/files.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/app/node_answers.h"
#include "triplepoint/app/record_flags.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/telemetry/sensor_opening.h"
#include "triplepoint/tui/document_text.h"

namespace triplepoint::cli {
namespace {

class Discover : public Command {
 public:
  Arguments arguments() override {
    Arguments all;
    all.flag("-o,--output", "FILE.toml", "the cluster description (default: standard output)",
             into(output_), {.words = Words::files})
        .flag("--nccl-tests", "FILE",
              "output of the nccl-tests (all_gather_perf ...) on this "
              "node; link efficiencies are taken from it",
              into(tests_), {.words = Words::files})
        .add(format_.argument());
    for (Argument& argument : sensors_.arguments())
      if (argument.names == "--devices") all.push_back(std::move(argument));
    return all;
  }

  Result<int> run(tui::Console& console) override {
    const spec::Library library = TPT_TRY(spec::require_library());
    telemetry::SensorOptions options = sensors_.options();
    options.node_power = false;
    const telemetry::Sensors sensors = TPT_TRY(telemetry::open_sensors(options));
    TPT_TRY(require_answers(sensors));
    const telemetry::NodeShape shape = TPT_TRY(telemetry::shape_of(sensors));
    const std::optional<trace::NcclTests> tests = TPT_TRY(read_tests());
    const telemetry::ClusterDraft draft = TPT_TRY(telemetry::draft_cluster(library, shape, tests));
    if (output_) TPT_TRY(write_file_atomically(*output_, draft.toml));
    const answers::Document answer = app::cluster_draft_answer(draft, shape);
    if (output_ || format_.is_json()) {
      print_answer(console, answer, format_);
      if (!format_.is_json())
        console.print(
            fmt::format("wrote {}; try: triplepoint simulate --cluster {} --model llama3-8b\n",
                        *output_, *output_));
      return exit_ok;
    }
    console.print(draft.toml);
    std::ostringstream about;  // standard output is the description's
    tui::Console beside(about, about, console.abilities());
    tui::print_document(beside, answer);
    console.warn(about.str());
    return exit_ok;
  }

 private:
  /// What does not answer would be missing in the description.
  static Result<void> require_answers(const telemetry::Sensors& sensors) {
    if (sensors.opening == nullptr) return {};
    for (const telemetry::Gap& gap : sensors.opening->outstanding())
      return error("{}: {} (the description would lack it); {}", gap.what, gap.why, gap.remedy);
    return {};
  }

  Result<std::optional<trace::NcclTests>> read_tests() const {
    if (!tests_) return std::optional<trace::NcclTests>();
    trace::Input input = TPT_TRY(trace::Input::open(*tests_));
    return std::optional(TPT_TRY(trace::parse_nccl_tests(input)));
  }

  app::SensorFlags sensors_;
  FormatFlag format_;
  std::optional<std::string> output_, tests_;
};

}  // namespace

std::unique_ptr<Command> make_discover() {
  return std::make_unique<Discover>();
}

}  // namespace triplepoint::cli
