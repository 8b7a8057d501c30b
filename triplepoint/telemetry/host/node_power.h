// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry::host {

/// What a program prints, at most 64 KiB of it. An error if it cannot be run, ends with a status
/// other than 0, or takes longer than the limit or than until `stopped` says so (it is killed then,
/// with what it started).
Result<std::string> output_of(const std::vector<std::string>& command, Seconds limit,
                              const std::function<bool()>& stopped = {});

/// How a command's text becomes a number.
struct CommandNumber {
  std::vector<std::string> command;
  std::function<std::optional<double>(std::string_view)> parse;
  Channel channel;
  Seconds period = 5 * unit::s, limit = 10 * unit::s;
};

/// A number which takes so long to ask for that its own thread does: the sampler finds the
/// last answer, with the time in the middle of the asking. A number older than three periods is
/// none.
class CommandSensor final : public Sensor {
 public:
  /// `first`: the answer already had while opening.
  CommandSensor(std::string name, CommandNumber number, double first);
  CommandSensor(const CommandSensor&) = delete;
  CommandSensor& operator=(const CommandSensor&) = delete;
  ~CommandSensor() override;

  std::string_view name() const override { return name_; }
  const std::vector<run::Device>& devices() const override { return devices_; }
  const std::vector<Channel>& channels() const override { return channels_; }
  const std::vector<Gap>& gaps() const override { return gaps_; }
  void read(bool slow, std::vector<Reading>& readings) override;
  std::vector<std::string> take_troubles() override;

 private:
  void ask_again_and_again();
  void ask();

  std::string name_;
  CommandNumber number_;
  std::vector<run::Device> devices_;
  std::vector<Channel> channels_;
  std::vector<Gap> gaps_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<bool> stop_ = false;
  double value_ = 0;
  int64_t stamp_ns_ = 0;
  bool failing_ = false;
  std::vector<std::string> troubles_;
  std::thread asking_;
};

}  // namespace triplepoint::telemetry::host
