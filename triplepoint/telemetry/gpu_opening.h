// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/run/run.h"

#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry {

/// Inside of SensorOpening: what its threads share.

/// Held by the opening and by its threads.
struct OpeningState : std::enable_shared_from_this<OpeningState> {
  /// Places of parts in what take() returns.
  enum Place { nvidia, amd, proc, board, network, facts };
  using Devices = std::vector<run::Device>;

  SensorOptions options;
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  std::map<int, std::vector<Sensors>> ready;     // by place
  std::map<std::string, int64_t> under_way;      // what is being opened, since when
  std::optional<Devices> nvidia_list, amd_list;  // all that are there

  void start(const std::string& what, std::function<void(OpeningState&)> open);
  void deliver(int place, Sensors part);
  void publish(std::optional<Devices>& list, Devices devices);
  /// False if the time is over first.
  bool wait_until(Seconds most, const std::function<bool()>& holds,
                  const std::function<bool()>& stopped = {}) const;
};

/// Open all GPUs of a vendor that are wanted, each on its own thread; what answers within some
/// seconds is delivered together, in the order of the GPUs.
void open_nvidia(OpeningState& state);
void open_amd(OpeningState& state);

/// Which of these devices the words mean, as SensorOptions::devices explains them; no words: all. A
/// word that no device answers to is an error that says which devices there are.
Result<std::vector<bool>> select_devices(const std::vector<run::Device>& devices,
                                         const std::vector<std::string>& words);

}  // namespace triplepoint::telemetry
