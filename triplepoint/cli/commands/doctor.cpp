// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/doctor/doctor.h"

#include "triplepoint/base/json.h"

#include "triplepoint/app/record_flags.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/tui/machine_text.h"

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
    if (format_.is_json())
      print_json(console, examination_json(found));
    else
      console.print(tui::examination_text(found, console));
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
