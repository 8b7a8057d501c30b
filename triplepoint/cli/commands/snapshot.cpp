// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <thread>

#include "triplepoint/base/json.h"

#include "triplepoint/app/record_flags.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/system/process.h"
#include "triplepoint/telemetry/live/live.h"
#include "triplepoint/tui/console.h"
#include "triplepoint/tui/machine_text.h"

namespace triplepoint::cli {
namespace {

using telemetry::Live;
using telemetry::Snapshot;

/// Sleeps in pieces: Ctrl-C is not kept waiting.
void sleep_for(Seconds time) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(time / unit::s));
  while (!interrupted() && Clock::now() < end)
    std::this_thread::sleep_for(
        std::min<Clock::duration>(end - Clock::now(), std::chrono::milliseconds(100)));
}

class SnapshotCommand : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .add(format_.argument())
        .flag("--every", "TIME", "repeat until interrupted; JSON has one line per snapshot",
              into_quantity(every_))
        .add(sensors_.arguments());
  }

  Result<int> run(tui::Console& console) override {
    telemetry::SamplingPlan plan;
    plan.probe = 0 * unit::s;
    Live live(TPT_TRY(telemetry::open_sensors(sensors_.options())), plan);
    live.read_now();
    sleep_for(0.5 * unit::s);  // over which rates are measured
    for (bool first = true;; first = false) {
      live.read_now();
      print(live.snapshot(), first, console);
      console.flush();
      if (!every_ || console.reader_left()) return exit_ok;
      sleep_for(*every_);
      if (interrupted()) return exit_ok;  // what was asked for: until interrupted
    }
  }

 private:
  void print(const Snapshot& snapshot, bool first, tui::Console& console) const {
    if (format_.is_csv())
      console.print(snapshot_csv(snapshot, first));
    else if (format_.is_json())
      console.print(json_text(snapshot_json(snapshot), every_ ? -1 : 2) + "\n");
    else
      console.print(tui::snapshot_table(snapshot, console));
  }

  app::SensorFlags sensors_;
  FormatFlag format_{FormatFlag::Csv::yes};
  std::optional<Seconds> every_;
};

}  // namespace

std::unique_ptr<Command> make_snapshot() {
  return std::make_unique<SnapshotCommand>();
}

}  // namespace triplepoint::cli
