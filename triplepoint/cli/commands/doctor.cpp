// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/doctor/doctor.h"

#include <fmt/format.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/process.h"

#include "triplepoint/cli/command.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/study/gpu_check.h"
#include "triplepoint/study/training.h"
#include "triplepoint/tui/machine_text.h"

namespace triplepoint::cli {
namespace {

class Doctor : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .add(format_.argument())
        .flag("--look", "TIME", "sampling time (default 3s)", into_quantity(look_))
        .add(sensors_.arguments())
        .group("Training on GPUs")
        .toggle("--gpu-train",
                "instead of sensors, check training: two steps of tiny models on each GPU and on "
                "all together, compared with the CPU",
                gpu_train_)
        .word("FLAGS",
              "with --gpu-train, flags of triplepoint-train behind --: --device-libraries FOLDER, "
              "--device-plugin FILE",
              into(trainer_flags_), {.repeats = true});
  }

  Result<int> run(tui::Console& console) override {
    if (gpu_train_) return check_training(console);
    if (!trainer_flags_.empty())
      return error(
          fmt::format("\"{}\" is a word and doctor takes none without --gpu-train; try "
                      "triplepoint doctor --gpu-train -- --device-libraries FOLDER",
                      trainer_flags_.front()));
    const Seconds look = look_.value_or(3 * unit::s);
    if (look < 100 * unit::ms || look > 600 * unit::s)
      return error("sensors can be watched for 100ms to 10min; try --look 3s");
    const telemetry::SensorOptions options = sensors_.options();
    auto sensors = TPT_TRY(telemetry::open_sensors(options));
    const telemetry::Examination found =
        examine(std::move(sensors), options.paths, telemetry::process_variable, look);
    if (format_.is_json())
      print_json(console, examination_json(found));
    else
      console.print(tui::examination_text(found, console));
    return exit_ok;
  }

 private:
  Result<int> check_training(tui::Console& console) const {
    constexpr Seconds limit = 180 * unit::s;  // a driver may translate kernels on their first start
    study::GpuCheckRequest request{
        .trainer = TPT_TRY(study::find_trainer(study::process_environment())),
        .flags = trainer_flags_,
        .limit = limit,
        .stopped = interrupted,
        .say = {}};
    if (!format_.is_json())
      request.say = [&console](const std::string& line) {
        console.print(line);
        console.flush();
      };
    const study::GpuCheck check = TPT_TRY(study::check_gpu_training(request));
    if (format_.is_json()) print_json(console, study::gpu_check_json(check));
    if (interrupted()) return exit_interrupted;
    return check.works() ? exit_ok : exit_failed;
  }

  SensorFlags sensors_;
  FormatFlag format_;
  std::optional<Seconds> look_;
  bool gpu_train_ = false;
  std::vector<std::string> trainer_flags_;
};

}  // namespace

std::unique_ptr<Command> make_doctor() {
  return std::make_unique<Doctor>();
}

}  // namespace triplepoint::cli
