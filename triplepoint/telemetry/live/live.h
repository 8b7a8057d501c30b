// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/run/run.h"

#include "triplepoint/telemetry/live/snapshot.h"
#include "triplepoint/telemetry/sampler/sampler.h"
#include "triplepoint/telemetry/sensor_opening.h"

namespace triplepoint::telemetry {

/// This node as it is now: the sensors, read by a thread or on request, and the latest of each
/// channel. Rates come from two readings of a counter that lie one to two seconds apart.
class Live {
 public:
  Live(Sensors sensors, const SamplingPlan& plan);

  /// Lets a thread read from now on; update() takes what it has read. Call that more often than the
  /// plan's `most_waiting` samples take.
  void start();
  void update();

  /// Without the thread: reads everything now.
  void read_now();

  /// The latest, without what is older than it may be.
  Snapshot snapshot();
  SamplerCost cost() const { return sampler_.cost(); }
  std::vector<std::optional<Seconds>> periods() const { return sampler_.periods(); }
  const std::vector<run::SeriesSource>& channels() const { return about_; }

 private:
  struct Latest {
    Sample last;
    int64_t count = 0;
    Sample older, newer;  // of a counter: where its rate is measured from, now and next
  };
  /// Time for which a reason that no counter counts held, by its bit: kept as a counter's.
  struct Polled {
    run::SeriesSource about;
    uint32_t bit = 0;
    Latest latest;
  };
  struct Trouble {
    int64_t time_ns = 0;
    std::string sentence;
  };

  void adopt(Sensors part);
  void adopt_opened();
  void fold();
  static void keep(Latest&, const Sample&);
  void count_reasons(const Sample& before, const Sample& bits);
  static LiveReading reading_of(const run::SeriesSource&, const Latest&, int64_t now_ns);
  bool is_current(const run::SeriesSource&, const Latest&, int64_t now_ns) const;
  void collect_troubles(int64_t now_ns);

  NodeFacts node_;
  std::vector<DeviceFacts> devices_;
  std::vector<Gap> gaps_;
  std::shared_ptr<SensorOpening> opening_;  // of what does not answer yet
  std::vector<int32_t> device_of_sampler_;  // by the sampler's index: position in devices_
  Sampler sampler_;
  std::vector<run::SeriesSource> about_;
  std::vector<Latest> latest_;
  std::vector<Polled> polled_;
  std::vector<Sample> samples_;
  std::vector<Trouble> troubles_;
  int64_t begin_ns_ = 0;
  double slow_s_ = 1;  // between two readings of a slow channel
};

}  // namespace triplepoint::telemetry
