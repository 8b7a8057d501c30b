// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry {

inline const Channel* channel(const Sensor& sensor, const std::string& signal, int device = 0) {
  for (const Channel& one : sensor.channels())
    if (one.about.signal == signal && one.about.device == device) return &one;
  return nullptr;
}

/// Readings by signal; of one device.
inline std::map<std::string, Reading> readings_of(Sensor& sensor, bool slow = true,
                                                  int device = 0) {
  std::vector<Reading> readings;
  sensor.read(slow, readings);
  std::map<std::string, Reading> found;
  for (const Reading& reading : readings) {
    const auto& about = sensor.channels().at(as_size(reading.channel)).about;
    if (about.device == device) found[about.signal] = reading;
  }
  return found;
}

inline bool says_missing(const std::vector<Gap>& gaps, const std::string& words) {
  return std::ranges::any_of(gaps, [&](const Gap& gap) {
    return (gap.what + ": " + gap.why + "; " + gap.remedy).find(words) != std::string::npos;
  });
}
inline bool says_missing(const Sensor& sensor, const std::string& words) {
  return says_missing(sensor.gaps(), words);
}

}  // namespace triplepoint::telemetry

namespace triplepoint::doubles {

/// A value over time (s since the sensor's begin); nothing where the reading fails.
using Signal = std::function<std::optional<double>(double)>;

/// What a sensor shows that averages over a window which ends at its update: the mean of `signal`
/// over [t - window, t].
inline Signal averaged(const std::function<double(double)>& signal, double window) {
  return [signal, window](double t) -> std::optional<double> {
    constexpr int samples = 200;
    double sum = 0;
    for (int i = 0; i < samples; ++i)
      sum += signal(t - window * (i + 0.5) / samples);
    return sum / samples;
  };
}

/// A sensor that reads from functions of time, on a clock the test turns (or on the machine's).
///
/// A channel with an update period shows the value of its last update, with the stamp of that
/// update: between two updates the same reading comes again, as from a real sensor.
class ScriptedSensor final : public telemetry::Sensor {
 public:
  using Clock = std::function<int64_t()>;

  explicit ScriptedSensor(std::string name = "scripted", Clock clock = telemetry::monotonic_now_ns)
      : name_(std::move(name)), clock_(std::move(clock)), begin_ns_(clock_()) {}

  /// Adds a GPU; its index inside the sensor.
  int32_t add_device(run::Device device = {}) {
    device.index = static_cast<int32_t>(devices_.size());
    devices_.push_back(std::move(device));
    return devices_.back().index;
  }
  /// Adds a channel; its index. `period`: between two updates, s; 0: always fresh.
  int32_t add(telemetry::Channel channel, Signal signal, double period = 0) {
    channels_.push_back(std::move(channel));
    scripts_.push_back({std::move(signal), static_cast<int64_t>(period * 1e9)});
    return static_cast<int32_t>(channels_.size()) - 1;
  }
  /// The same with the usual words: a signal of a device, or of the node (device -1).
  int32_t add(std::string signal, int32_t device, run::ReadingKind kind, Signal script,
              double period = 0) {
    telemetry::Channel channel;
    channel.about.signal = std::move(signal);
    channel.about.device = std::max(device, 0);
    channel.about.of_node = device < 0;
    channel.about.scope = device < 0 ? run::Scope::node : run::Scope::gpu;
    channel.about.kind = kind;
    channel.about.sensor = name_;
    return add(std::move(channel), std::move(script), period);
  }
  void set_slow(int32_t channel) {
    channels_.at(as_size(channel)).polling = telemetry::Polling::slow;
  }
  void add_gap(telemetry::Gap gap) { gaps_.push_back(std::move(gap)); }
  /// `sentence` is among the troubles of the first take after this time (s).
  void add_trouble(double at, std::string sentence) {
    troubles_.push_back({at, std::move(sentence)});
  }
  /// No channel of this device (-1: of the node) can be read in [begin, end) s.
  void lose_device(int32_t device, double begin, double end) {
    lost_.push_back({device, begin, end});
  }
  /// Every read() costs this much CPU time (s), or sleeps this long.
  void set_cost(double cpu_s, double sleep_s = 0) { cpu_s_ = cpu_s, sleep_s_ = sleep_s; }

  int64_t begin_ns() const { return begin_ns_; }
  int64_t reads() const { return reads_; }

  std::string_view name() const override { return name_; }
  const std::vector<run::Device>& devices() const override { return devices_; }
  const std::vector<telemetry::Channel>& channels() const override { return channels_; }
  const std::vector<telemetry::Gap>& gaps() const override { return gaps_; }

  void read(bool slow, std::vector<telemetry::Reading>& readings) override {
    ++reads_;
    spend();
    for (std::size_t c = 0; c < channels_.size(); ++c) {
      const telemetry::Channel& channel = channels_[c];
      if (channel.polling == telemetry::Polling::slow && !slow) continue;
      const int64_t since = clock_() - begin_ns_;
      const int64_t period = scripts_[c].period_ns;
      const int64_t stamp = period > 0 ? since / period * period : since;
      if (is_lost(channel, as_real(since) * 1e-9)) continue;
      if (const auto value = scripts_[c].signal(as_real(stamp) * 1e-9))
        readings.push_back({static_cast<int32_t>(c), begin_ns_ + stamp, *value});
    }
  }

  std::vector<std::string> take_troubles() override {
    const double now = as_real(clock_() - begin_ns_) * 1e-9;
    std::vector<std::string> due;
    std::erase_if(troubles_, [&](const Trouble& trouble) {
      if (trouble.at > now) return false;
      due.push_back(trouble.sentence);
      return true;
    });
    return due;
  }

 private:
  struct Script {
    Signal signal;
    int64_t period_ns = 0;
  };
  struct Trouble {
    double at = 0;
    std::string sentence;
  };
  struct Loss {
    int32_t device = 0;
    double begin = 0, end = 0;
  };

  bool is_lost(const telemetry::Channel& channel, double now) const {
    const int32_t device = channel.about.of_node ? -1 : channel.about.device;
    return std::ranges::any_of(lost_, [&](const Loss& loss) {
      return loss.device == device && now >= loss.begin && now < loss.end;
    });
  }
  static double thread_cpu_s() {
    timespec used{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return as_real(used.tv_sec) + 1e-9 * as_real(used.tv_nsec);
  }
  void spend() const {
    if (cpu_s_ > 0)
      for (const double end = thread_cpu_s() + cpu_s_; thread_cpu_s() < end;) {
      }
    if (sleep_s_ > 0) {
      const timespec length{
          static_cast<time_t>(sleep_s_),
          static_cast<long>((sleep_s_ - as_real(static_cast<time_t>(sleep_s_))) * 1e9)};
      nanosleep(&length, nullptr);
    }
  }

  std::string name_;
  Clock clock_;
  int64_t begin_ns_ = 0;
  std::vector<run::Device> devices_;
  std::vector<telemetry::Channel> channels_;
  std::vector<telemetry::Gap> gaps_;
  std::vector<Script> scripts_;
  std::vector<Trouble> troubles_;
  std::vector<Loss> lost_;
  double cpu_s_ = 0, sleep_s_ = 0;
  int64_t reads_ = 0;
};

}  // namespace triplepoint::doubles
