// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/sampler/sampler.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <thread>

#include <doctest/doctest.h>

#include "tests/doubles/scripted_sensor.h"

namespace triplepoint::telemetry {
namespace {

using doubles::ScriptedSensor;
using run::ReadingKind;
constexpr int64_t ms = 1'000'000;

TEST_CASE("a late tick does not push the next ones, and a lost one is counted") {
  TickGrid grid(1000 * ms, 100 * ms);
  CHECK(grid.next_ns() == 1000 * ms);
  CHECK(grid.advance(1030 * ms) == 0);
  CHECK(grid.next_ns() == 1100 * ms);
  CHECK(grid.advance(1230 * ms) == 0);  // the next one is due already, and is kept
  CHECK(grid.next_ns() == 1200 * ms);
  CHECK(grid.advance(1730 * ms) == 4);
  CHECK(grid.next_ns() == 1700 * ms);
}

TEST_CASE("kept and lost ticks together are all ticks of the time that went by") {
  TickGrid grid(0, 7 * ms);
  int64_t now = 0, kept = 0, lost = 0;
  for (int i = 0; i < 500; ++i) {
    now = std::max(now, grid.next_ns()) + (i * 37 % 23) * ms;
    ++kept;
    lost += grid.advance(now);
  }
  CHECK(kept + lost == grid.index());
  CHECK(grid.next_ns() > now - 7 * ms);
}

std::optional<int64_t> period_seen(int64_t poll, const std::function<int64_t(int64_t)>& stamp,
                                   const std::function<double(int64_t)>& value) {
  UpdatePeriod period;
  for (int64_t now = 0; now < 2000 * ms; now += poll)
    period.see(now, stamp(now), value(now));
  return period.found_ns();
}

TEST_CASE("the update period of a sensor that stamps is found from its stamps") {
  for (int64_t true_period : {20 * ms, 31 * ms, 100 * ms, 104 * ms}) {
    const auto found = period_seen(
        10 * ms, [&](int64_t now) { return now / true_period * true_period; },
        [](int64_t) { return 1.0; });
    REQUIRE(found);
    CHECK(*found == true_period);
  }
}

TEST_CASE("the update period of a sensor that does not stamp is found from its values") {
  for (int64_t true_period : {50 * ms, 100 * ms}) {
    const auto found = period_seen(
        10 * ms, [](int64_t now) { return now; },
        [&](int64_t now) {
          const int64_t updates = now / true_period;
          return as_real(updates);
        });
    REQUIRE(found);
    CHECK(std::abs(*found - true_period) <= ms);
  }
}

TEST_CASE("the update period of a sensor that is silent between its updates is found") {
  UpdatePeriod period;
  for (int64_t now = 0; now < 2000 * ms; now += 10 * ms)
    now % (100 * ms) == 0 ? period.see(now, now - 3 * ms, 5) : period.see_nothing(now);
  REQUIRE(period.found_ns());
  CHECK(*period.found_ns() == 100 * ms);
}

TEST_CASE("what changes with every reading or now and then has no period that could be seen") {
  const auto as_read = [](int64_t now) { return now; };
  CHECK_FALSE(period_seen(10 * ms, as_read, [](int64_t now) { return as_real(now); }));
  CHECK_FALSE(period_seen(10 * ms, as_read, [](int64_t) { return 5.0; }));
  CHECK_FALSE(period_seen(10 * ms, as_read, [](int64_t now) {
    const int64_t t = now / (10 * ms);
    return t < 20 ? 1.0 : t < 30 ? 2.0 : t < 95 ? 3.0 : t < 100 ? 4.0 : t < 170 ? 5.0 : 6.0;
  }));
}

/// A sensor's rounds on a clock that the test turns.
struct Bench {
  int64_t now = 1000 * ms;
  ScriptedSensor* sensor = nullptr;
  std::unique_ptr<SensorRound> round;

  void build(const std::function<void(ScriptedSensor&)>& fill) {
    auto made = std::make_unique<ScriptedSensor>("scripted", [this] { return now; });
    sensor = made.get();
    fill(*sensor);
    round = std::make_unique<SensorRound>(std::move(made), [this] { return now; });
  }
  /// Calls of the sensor in `count` ticks, once its period may be known.
  int64_t reads_at(int64_t tick, int64_t asked, int64_t count) {
    round->set_interval(tick, asked);
    const int64_t before = sensor->reads();
    poll(tick, count);
    return sensor->reads() - before;
  }
  std::vector<Sample> poll(int64_t tick, int64_t count) {
    std::vector<Sample> samples;
    for (int64_t i = 0; i < count; ++i, now += tick)
      round->read(i, i % 10 == 0, samples);
    return samples;
  }
};

/// New every 100 ms.
void power_alone(ScriptedSensor& sensor) {
  sensor.add_device();
  sensor.add(
      "power_instant_w", 0, ReadingKind::instant, [](double t) { return t; }, 0.1);
}
void power_and_clock(ScriptedSensor& sensor) {
  power_alone(sensor);
  sensor.add("sm_clock_mhz", 0, ReadingKind::instant, [](double) { return 1980; });
}

TEST_CASE("a reading with the stamp of the one before is dropped, each update is kept once") {
  Bench bench;
  bench.build(power_alone);
  const auto samples = bench.poll(20 * ms, 500);  // ten seconds
  CHECK(samples.size() == 100);
  for (size_t i = 1; i < samples.size(); ++i)
    CHECK(samples[i].time_ns - samples[i - 1].time_ns == 100 * ms);
}

TEST_CASE("slow channels are read when it is their turn only") {
  Bench bench;
  bench.build([](ScriptedSensor& sensor) {
    sensor.add_device();
    sensor.add("power_instant_w", 0, ReadingKind::instant, [](double t) { return t; });
    sensor.set_slow(
        sensor.add("power_limit_w", 0, ReadingKind::instant, [](double) { return 700; }));
  });
  const auto samples = bench.poll(100 * ms, 100);
  CHECK(std::ranges::count(samples, 0, &Sample::channel) == 100);
  CHECK(std::ranges::count(samples, 1, &Sample::channel) == 10);
}

TEST_CASE("a sensor slower than the ticks is read at half of its period, and misses no update") {
  Bench bench;
  bench.build(power_alone);
  bench.poll(10 * ms, 150);
  CHECK(bench.round->periods()[0].value() / unit::ms == doctest::Approx(100));
  bench.round->set_interval(20 * ms, 20 * ms);
  const int64_t reads = bench.sensor->reads();
  const auto samples = bench.poll(20 * ms, 500);
  CHECK(bench.round->periods()[0].value() / unit::ms == doctest::Approx(100));
  CHECK(bench.sensor->reads() - reads == 250);
  CHECK(samples.size() == 100);
}

TEST_CASE("a sensor with a channel of unknown period is read at every tick") {
  Bench bench;
  bench.build(power_and_clock);
  bench.poll(10 * ms, 150);
  CHECK(bench.reads_at(20 * ms, 20 * ms, 100) == 100);
}

TEST_CASE("where sensors set the interval, others are read as often as was asked for") {
  Bench bench;
  bench.build([](ScriptedSensor& sensor) {
    sensor.add_device();
    sensor.add("cpu_user_s", -1, ReadingKind::counter, [](double t) { return t; });
  });
  bench.poll(10 * ms, 150);
  CHECK(bench.reads_at(50 * ms, 100 * ms, 100) == 50);
}

TEST_CASE("a sensor with a known period sets the interval, whatever else it reads") {
  Bench bench;
  bench.build(power_and_clock);
  CHECK(bench.round->shortest_period_ns() == 0);
  bench.poll(10 * ms, 150);
  CHECK(bench.round->shortest_period_ns() == 100 * ms);
  CHECK(bench.reads_at(50 * ms, 100 * ms, 100) == 100);
}

TEST_CASE("what is no number, and what is stamped by another clock, does no harm") {
  int64_t now = 0;
  class MalformedSensor : public Sensor {
   public:
    explicit MalformedSensor(int64_t& now) : now_(now) { channels_.resize(3); }
    std::string_view name() const override { return "odd"; }
    const std::vector<run::Device>& devices() const override { return devices_; }
    const std::vector<Channel>& channels() const override { return channels_; }
    const std::vector<Gap>& gaps() const override { return gaps_; }
    void read(bool, std::vector<Reading>& readings) override {
      readings.push_back({0, now_, std::numeric_limits<double>::quiet_NaN()});
      readings.push_back({1, now_ + (int64_t{1} << 60U), 1});
      readings.push_back({2, 5'000 * ms - now_, 1});  // goes backwards
      readings.push_back({7, now_, 1});
      readings.push_back({-1, now_, 1});
    }

   private:
    int64_t& now_;
    std::vector<run::Device> devices_;
    std::vector<Channel> channels_;
    std::vector<Gap> gaps_;
  };
  SensorRound round(std::make_unique<MalformedSensor>(now), [&] { return now; });
  std::vector<Sample> samples;
  for (now = 2600 * ms; now < 2700 * ms; now += 10 * ms)
    round.read(0, true, samples);
  std::map<int32_t, int> counts;
  for (const Sample& sample : samples) {
    ++counts[sample.channel];
    CHECK(sample.time_ns <= now);
  }
  CHECK(counts == std::map<int32_t, int>{{1, 10}, {2, 1}});
}

TEST_CASE("stamps of one call that lie close together become one, and still ascend") {
  Bench bench;
  bench.build([&](ScriptedSensor& sensor) {
    sensor.add_device();
    for (const char* signal : {"a", "b", "c"})
      sensor.add(signal, 0, ReadingKind::instant, [&bench](double t) {
        bench.now += 30'000;  // a call takes its time
        return t;
      });
  });
  const auto samples = bench.poll(100 * ms, 20);
  REQUIRE(samples.size() == 60);
  for (size_t i = 0; i < samples.size(); ++i)
    CHECK(samples[i].time_ns == samples[i / 3 * 3].time_ns);
}

TEST_CASE("devices of several sensors count through, channels follow them") {
  std::vector<std::unique_ptr<Sensor>> all;
  for (int i = 0; i < 2; ++i) {
    auto sensor = std::make_unique<ScriptedSensor>(i == 0 ? "first" : "second");
    sensor->add_device({.name = "gpu"});
    sensor->add("die_c", 0, ReadingKind::instant, [](double) { return 50; });
    sensor->add_gap({.what = "nothing"});
    all.push_back(std::move(sensor));
  }
  Sampler sampler(std::move(all), {});
  REQUIRE(sampler.devices().size() == 2);
  CHECK(sampler.devices()[1].index == 1);
  CHECK(sampler.channels()[1].device == 1);
  CHECK(sampler.gaps().size() == 2);
  std::vector<Sample> samples;
  sampler.read_now(true, samples);
  CHECK(samples.size() == 2);
}

TEST_CASE("the thread samples until it is stopped, and meters itself") {
  auto sensor = std::make_unique<ScriptedSensor>();
  sensor->add_device();
  sensor->add("power_instant_w", 0, ReadingKind::instant, [](double t) { return t; });
  sensor->add_trouble(0, "a GPU fell off the bus");
  sensor->set_cost(1e-4);
  std::vector<std::unique_ptr<Sensor>> all;
  all.push_back(std::move(sensor));
  Sampler sampler(std::move(all), {.interval = 2 * unit::ms, .probe = 10 * unit::ms});
  sampler.start();
  std::vector<Sample> samples;
  while (sampler.cost().ticks < 60)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  sampler.stop();
  sampler.stop();
  sampler.take(samples);
  std::map<int32_t, std::vector<Sample>> by_channel;
  for (const Sample& sample : samples)
    by_channel[sample.channel].push_back(sample);
  CHECK(by_channel.size() == 5);  // power and four of the sampler's own
  for (const auto& [channel, own] : by_channel)
    CHECK(std::ranges::is_sorted(own, {}, &Sample::time_ns));
  const SamplerCost cost = sampler.cost();
  CHECK(by_channel[0].size() == as_size(cost.ticks));
  CHECK(cost.cpu_s >= 1e-4 * as_real(cost.ticks));
  CHECK(cost.longest_call_s >= 1e-4);
  CHECK(cost.slowest_sensor == "scripted");
  CHECK(sampler.take_troubles() == std::vector<std::string>{"a GPU fell off the bus"});
  CHECK(sampler.take_troubles().empty());
}

TEST_CASE("a sensor slower than the ticks loses ticks, and the run knows how many") {
  auto sensor = std::make_unique<ScriptedSensor>();
  sensor->add_device();
  sensor->add("power_instant_w", 0, ReadingKind::instant, [](double t) { return t; });
  sensor->set_cost(0, 0.012);
  std::vector<std::unique_ptr<Sensor>> all;
  all.push_back(std::move(sensor));
  Sampler sampler(std::move(all), {.interval = 2 * unit::ms, .probe = Seconds()});
  sampler.start();
  while (sampler.cost().ticks < 10)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  sampler.stop();
  // Each call passes over at least four ticks.
  CHECK(sampler.cost().lost_ticks >= 4 * (sampler.cost().ticks - 1));
}

TEST_CASE("samples that are not taken are dropped in the end, and counted") {
  auto sensor = std::make_unique<ScriptedSensor>();
  sensor->add_device();
  sensor->add("power_instant_w", 0, ReadingKind::instant, [](double t) { return t; });
  std::vector<std::unique_ptr<Sensor>> all;
  all.push_back(std::move(sensor));
  Sampler sampler(std::move(all),
                  {.interval = 1 * unit::ms, .probe = Seconds(), .most_waiting = 20});
  sampler.start();
  while (sampler.cost().ticks < 30)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  sampler.stop();
  std::vector<Sample> samples;
  sampler.take(samples);
  CHECK(samples.size() == 20);
  CHECK(sampler.cost().lost_samples > 0);
}

/// A GPU whose next call does not return before it is released.
class BlockingSensor : public Sensor {
 public:
  explicit BlockingSensor(std::shared_ptr<std::atomic<bool>> blocks, int32_t local)
      : blocks_(std::move(blocks)) {
    devices_.push_back({.local = local, .pci = "0000:1d:00.0"});
    channels_.resize(1);
    channels_[0].about.signal = "power_instant_w";
  }
  std::string_view name() const override { return "blocking"; }
  const std::vector<run::Device>& devices() const override { return devices_; }
  const std::vector<Channel>& channels() const override { return channels_; }
  const std::vector<Gap>& gaps() const override { return gaps_; }
  void read(bool, std::vector<Reading>& readings) override {
    while (*blocks_)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    readings.push_back({0, monotonic_now_ns(), 500});
  }

 private:
  std::shared_ptr<std::atomic<bool>> blocks_;
  std::vector<run::Device> devices_;
  std::vector<Channel> channels_;
  std::vector<Gap> gaps_;
};

/// Some GPUs, of which number 1 blocks.
struct BlockedNode {
  std::shared_ptr<std::atomic<bool>> blocks = std::make_shared<std::atomic<bool>>(false);
  Sampler sampler;
  std::vector<Sample> samples;

  explicit BlockedNode(int32_t gpus)
      : sampler(sensors(gpus), {.interval = 10 * unit::ms, .probe = Seconds()}) {}
  std::vector<std::unique_ptr<Sensor>> sensors(int32_t gpus) const {
    return numbered<std::unique_ptr<Sensor>>(gpus, [&](int32_t i) {
      return std::make_unique<BlockingSensor>(
          i == 1 ? blocks : std::make_shared<std::atomic<bool>>(false), i);
    });
  }
  int64_t count(int32_t channel) {
    sampler.take(samples);
    return std::ranges::count(samples, channel, &Sample::channel);
  }
  /// Until it holds, or for half a minute.
  static bool comes(const std::function<bool()>& holds) {
    for (int i = 0; i < 3000 && !holds(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return holds();
  }
};

TEST_CASE("a GPU whose call does not return is said once, and the others are read on") {
  BlockedNode node(4);
  node.sampler.start();
  REQUIRE(BlockedNode::comes([&] { return node.count(3) > 5; }));
  *node.blocks = true;
  const int64_t before = node.count(3);
  REQUIRE(BlockedNode::comes([&] { return node.count(3) > before + 50; }));
  const int64_t of_blocked = node.count(1);
  std::vector<std::string> troubles;
  REQUIRE(BlockedNode::comes([&] {
    for (std::string& trouble : node.sampler.take_troubles())
      troubles.push_back(std::move(trouble));
    return !troubles.empty();
  }));
  CHECK(troubles[0].starts_with("GPU 1 (0000:1d:00.0) has not answered since "));
  CHECK(node.count(1) == of_blocked);
  *node.blocks = false;
  CHECK(BlockedNode::comes([&] { return node.count(1) > of_blocked + 50; }));
  node.sampler.stop();
  REQUIRE(BlockedNode::comes([&] {
    for (std::string& trouble : node.sampler.take_troubles())
      troubles.push_back(std::move(trouble));
    return troubles.size() == 2;
  }));
  CHECK(troubles[1].starts_with("GPU 1 (0000:1d:00.0) answers again after "));
}

TEST_CASE("no call holds up the end of sampling, nor a reading on request") {
  using Clock = std::chrono::steady_clock;
  const auto blocks = [] {
    BlockedNode node(3);
    *node.blocks = true;
    node.sampler.read_now(true, node.samples);
    node.sampler.read_now(true, node.samples);
    CHECK(node.count(0) > 0);
    CHECK(node.count(2) > 0);
    CHECK(node.count(1) == 0);
    return node.blocks;
  };
  const auto begin = Clock::now();
  const auto released = blocks();
  CHECK(Clock::now() - begin < std::chrono::seconds(20));
  *released = false;  // the thread ends
}

TEST_CASE("sensors that come later are read as well, and keep the place of their GPU") {
  BlockedNode node(2);
  node.sampler.start();
  run::Device listed;
  listed.local = 5;
  node.sampler.add({}, {listed});
  REQUIRE(node.sampler.devices().size() == 3);
  std::vector<std::unique_ptr<Sensor>> late;
  late.push_back(std::make_unique<BlockingSensor>(std::make_shared<std::atomic<bool>>(false), 5));
  node.sampler.add(std::move(late));
  REQUIRE(node.sampler.devices().size() == 3);
  CHECK(node.sampler.devices()[2].pci == "0000:1d:00.0");
  CHECK(node.sampler.channels().back().device == 2);
  const auto channel = static_cast<int32_t>(node.sampler.channels().size()) - 1;
  CHECK(BlockedNode::comes([&] { return node.count(channel) > 5; }));
}

}  // namespace
}  // namespace triplepoint::telemetry
