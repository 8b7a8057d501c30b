// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/node_answers.h"
#include "triplepoint/app/record_flags.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/shared_flags.h"

namespace triplepoint::cli {
namespace {

class Doctor : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .add(format_.argument())
        .flag("--look", "TIME", "sampling time (default 3s)",
              into_time(look_, 100 * unit::ms, 10 * unit::min))
        .add(sensors_.arguments());
  }

  Result<int> run(tui::Console& console) override {
    const telemetry::SensorOptions options = sensors_.options();
    auto sensors = TPT_TRY(telemetry::open_sensors(options));
    const telemetry::Examination found =
        examine(std::move(sensors), options.paths, telemetry::process_variable, look_);
    print_answer(console, app::examination_answer(found), format_);
    return exit_ok;
  }

 private:
  app::SensorFlags sensors_;
  FormatFlag format_;
  Seconds look_ = 3 * unit::s;
};

}  // namespace

std::unique_ptr<Command> make_doctor() {
  return std::make_unique<Doctor>();
}

}  // namespace triplepoint::cli
