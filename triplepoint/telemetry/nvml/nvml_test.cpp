// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/random.h"
#include "triplepoint/base/text.h"

#include "triplepoint/telemetry/nvml/fields.h"
#include "triplepoint/telemetry/nvml/sensor.h"

#include "tests/doubles/fake_drivers.h"
#include "tests/doubles/scripted_sensor.h"

namespace triplepoint::telemetry::nvml {
namespace {

using doubles::FakeNvml;

/// A sensor for each GPU of a made-up driver whose clock the test turns.
struct Bench {
  explicit Bench(const std::string& script, int age = 13, bool gpm = false) : fake(script, age) {
    fake.set_time(0);
    auto opened = must(Driver::open(fake.library()));
    const std::shared_ptr<Driver> driver = std::move(opened);
    std::vector<Gap> unlisted;
    for (int32_t i = 0; i < num_devices(*driver); ++i)
      if (const auto listed = list_device(*driver, i, unlisted))
        sensors.push_back(make_sensor(driver, *listed, gpm, missing));
  }

  const Channel* channel(const std::string& signal, std::size_t gpu = 0) const {
    return telemetry::channel(*sensors.at(gpu), signal);
  }
  /// All readings at this time, by signal and GPU.
  std::map<std::pair<std::string, int>, Reading> at(double time, bool slow = true) {
    fake.set_time(time);
    std::map<std::pair<std::string, int>, Reading> found;
    for (std::size_t gpu = 0; gpu < sensors.size(); ++gpu) {
      std::vector<Reading> readings;
      sensors[gpu]->read(slow, readings);
      for (const Reading& reading : readings) {
        const auto channel = as_size(reading.channel);
        const std::string& signal = sensors[gpu]->channels().at(channel).about.signal;
        CHECK(found.emplace(std::pair(signal, static_cast<int>(gpu)), reading).second);
      }
    }
    return found;
  }
  double value(double time, const std::string& signal, int gpu = 0) {
    const auto found = at(time);
    const auto reading = found.find({signal, gpu});
    return reading == found.end() ? std::nan("") : reading->second.value;
  }
  bool says_missing(const std::string& words) const {
    return telemetry::says_missing(missing.gaps(), words);
  }
  std::vector<std::string> take_troubles() const {
    std::vector<std::string> all;
    for (const auto& sensor : sensors)
      std::ranges::move(sensor->take_troubles(), std::back_inserter(all));
    return all;
  }

  FakeNvml fake;
  GapList missing;
  std::vector<std::unique_ptr<Sensor>> sensors;
};

TEST_CASE("a current driver gives instant and average power, energy and clocks, each labelled") {
  Bench bench("gpus 2\ngpu * power hold 500\ngpu 1 power hold 300\n");
  REQUIRE(bench.sensors.size() == 2);
  CHECK(bench.sensors[1]->devices().at(0).pci == "0000:1b:00.0");
  CHECK(bench.value(5, "power_instant_w", 0) == 500);
  CHECK(bench.value(5, "power_instant_w", 1) == 300);
  REQUIRE(bench.channel("power_average_w") != nullptr);
  CHECK(bench.channel("power_average_w")->about.kind == run::ReadingKind::average);
  CHECK(bench.channel("power_average_w")->about.window == 1 * unit::s);
  CHECK(bench.channel("power_instant_w")->about.sensor == "nvml field 186");
  CHECK(bench.channel("energy_j")->about.kind == run::ReadingKind::counter);
  CHECK(bench.channel("memory_power_w")->about.scope == run::Scope::memory);
  CHECK(bench.channel("throttle_reasons")->about.kind == run::ReadingKind::bits);
  CHECK(bench.channel("memory_used_b")->polling == Polling::slow);
}

TEST_CASE("an energy counter counts from the first reading what power integrates to") {
  Bench bench("start energy 123456789\ngpu * power steps 0:100 1:700 every 2\n");
  CHECK(bench.value(1, "energy_j") == 0);
  CHECK(bench.value(11, "energy_j") == doctest::Approx(4000).epsilon(1e-6));
}

TEST_CASE("slow channels are read when they are asked for, and only then") {
  Bench bench("");
  CHECK(bench.at(1, false).count({"memory_used_b", 0}) == 0);
  CHECK(bench.at(2, true).count({"memory_used_b", 0}) == 1);
}

TEST_CASE("NVLink bytes are those of all links, not of the first") {
  Bench bench("links 18\ngpu * scale_up_tx hold 90e9\n");
  bench.at(0);
  CHECK(bench.value(10, "scale_up_tx_bytes") == doctest::Approx(900e9).epsilon(1e-6));
}

TEST_CASE("Blackwell's NVLink bytes are added over links, where the older fields read zero") {
  Bench bench("architecture 10\nlinks 18\ngpu * scale_up_rx hold 700e9\n");
  bench.at(0);
  CHECK(bench.value(2, "scale_up_rx_bytes") == doctest::Approx(1400e9).epsilon(1e-6));
  CHECK(bench.channel("scale_up_rx_bytes")->about.sensor == "nvml field 204, links added");
}

TEST_CASE("a PCIe counter of 32 bits loses nothing while it wraps") {
  Bench bench("pcie_bits 32\nstart pcie_tx 4294967000\ngpu * pcie_tx hold 20e9\n");
  CHECK(bench.says_missing("32 bits"));
  bench.at(0);
  double last = 0;
  for (int tick = 1; tick <= 40; ++tick)
    last = bench.value(0.1 * tick, "pcie_tx_bytes");
  CHECK(last == doctest::Approx(80e9).epsilon(1e-6));
}

TEST_CASE("thermal residency is found under either of the numbers drivers gave it") {
  for (const int numbering : {251, 269})
    for (const int architecture : {9, 10}) {
      CAPTURE(numbering);
      CAPTURE(architecture);
      // Blackwell answers the other set too, with settings of its power smoothing.
      Bench bench(
          fmt::format("numbering {}\narchitecture {}\n"
                      "gpu * hw_thermal_slowdown steps 0:0 1:0.3 2:0\n",
                      numbering, architecture));
      bench.at(0.5);
      CHECK(bench.value(5, "throttle_ns_hw_thermal_slowdown") == doctest::Approx(3e8));
      CHECK(bench.value(6, "throttle_ns_sw_thermal_slowdown") == 0);
      CHECK(bench.channel("throttle_ns_hw_power_brake")->about.sensor ==
            fmt::format("nvml field {}", numbering + 2));
    }
}

TEST_CASE("a slowdown of 30 ms is in the residency, whatever the polls of the bits saw") {
  Bench bench(
      "counters 0\ngpu * sw_power_cap steps 0:0 1.03:1 1.06:0\n"
      "gpu * reasons steps 0:0 1.03:4 1.06:0\n");
  double polled = 0;
  for (int tick = 0; tick < 20; ++tick)
    polled += bench.value(0.1 * tick, "throttle_reasons");
  CHECK(polled == 0);
  CHECK(bench.value(2, "throttle_ns_sw_power_cap") == doctest::Approx(30e6).epsilon(1e-3));
}

TEST_CASE("what a driver lacks is a gap with its reason, and its older calls are used") {
  Bench bench("driver 470.82\narchitecture 7\nname NVIDIA A40\ngpu * power hold 250\n", 11);
  CHECK(bench.channel("power_instant_w") == nullptr);
  CHECK(bench.value(3, "power_average_w") == 250);
  CHECK(bench.channel("power_average_w")->about.sensor == "nvmlDeviceGetPowerUsage");
  CHECK(bench.says_missing("instant power of GPU 0"));
  CHECK(bench.says_missing("PCIe bytes sent"));
  CHECK(bench.says_missing("; a driver of series 535 or newer"));
  CHECK_FALSE(bench.says_missing("Volta"));
  CHECK(bench.value(3, "die_c") == 35);
  CHECK(bench.value(4, "throttle_reasons") == 1);
}

TEST_CASE("old drivers' one reading of power is instant on GA100 and averaged elsewhere") {
  Bench a100("architecture 7\nname NVIDIA A100-SXM4-80GB\n", 11);
  CHECK(a100.channel("power_instant_w") != nullptr);
  Bench a40("architecture 7\nname NVIDIA A40\n", 11);
  CHECK(a40.channel("power_instant_w") == nullptr);
  CHECK(a40.channel("power_average_w")->about.window == 1 * unit::s);
}

TEST_CASE("energy comes from its own call where the field is missing") {
  Bench bench("unsupported * 83\ngpu * power hold 400\n");
  CHECK(bench.channel("energy_j")->about.sensor == "nvmlDeviceGetTotalEnergyConsumption");
  CHECK_FALSE(bench.says_missing("energy"));
  bench.at(1);
  CHECK(bench.value(3, "energy_j") == doctest::Approx(800));
}

TEST_CASE("a number that takes the driver long is polled slowly, and that is said") {
  Bench bench("latency 185 3300\nlatency 197 300\nlatency 198 300\n");
  CHECK(bench.channel("power_average_w")->polling == Polling::slow);
  CHECK(bench.channel("pcie_tx_bytes")->polling == Polling::slow);
  CHECK(bench.channel("power_instant_w")->polling == Polling::every_tick);
  CHECK(
      bench.says_missing("power_average_w at every tick of GPU 0: the driver takes over 0.15 ms"));
  CHECK(bench.at(1, false).count({"power_average_w", 0}) == 0);
  CHECK(bench.at(2, true).count({"power_average_w", 0}) == 1);
}

TEST_CASE("a GPU split by MIG says what it is read as a whole, and what is missing") {
  Bench bench("gpus 2\nmig 1\n");
  CHECK(bench.channel("utilization", 0) != nullptr);
  CHECK(bench.channel("utilization", 1) == nullptr);
  CHECK(bench.channel("power_instant_w", 1) != nullptr);
  CHECK(bench.says_missing("utilization of GPU 1"));
  CHECK(bench.says_missing("split by MIG"));
}

TEST_CASE("XID errors are counted from the opening on, and the last is told") {
  Bench bench("gpus 2\nxid 1 79 2\nxid 1 31 2.5\n");
  REQUIRE(bench.channel("xid_errors", 1) != nullptr);
  CHECK(bench.channel("xid_errors", 1)->polling == Polling::slow);
  CHECK(bench.value(1, "xid_errors", 1) == 0);
  CHECK(bench.value(2.2, "xid", 1) == 79);
  CHECK(bench.value(3, "xid_errors", 1) == 2);
  CHECK(bench.value(4, "xid", 1) == 31);
  CHECK(bench.value(4, "xid_errors", 0) == 0);
  CHECK(Bench("gpus 1\n").channel("xid") == nullptr);
}

TEST_CASE("power of a module is a separate signal, never a GPU's") {
  // As Grace Hopper may.
  Bench bench("unsupported * 186/0\nunsupported * 185/0\ngpu * power hold 650\n");
  REQUIRE(bench.channel("module_power_w") != nullptr);
  CHECK(bench.channel("module_power_w")->about.scope == run::Scope::module);
  CHECK(bench.value(5, "module_power_w") == 650);
  CHECK(bench.channel("module_power_w")->about.sensor == "nvml field 186, module scope");
  CHECK(bench.channel("energy_j")->about.scope == run::Scope::gpu);
}

TEST_CASE("a GPU that is lost before the start is a gap") {
  FakeNvml fake("gpus 3\nlost 1 0\n");
  const auto driver = must(Driver::open(fake.library()));
  std::vector<Gap> gaps;
  REQUIRE(num_devices(*driver) == 3);
  CHECK_FALSE(list_device(*driver, 1, gaps));
  CHECK(list_device(*driver, 2, gaps)->device.local == 2);
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].what == "GPU 1");
  CHECK(gaps[0].why == "GPU is lost (15)");
}

TEST_CASE("one field that fails leaves a gap in its series and no other") {
  Bench bench("fail 0 82 999 2 4\n");
  CHECK(bench.at(1).count({"memory_c", 0}) == 1);
  const auto during = bench.at(3);
  CHECK(during.count({"memory_c", 0}) == 0);
  CHECK(during.count({"power_instant_w", 0}) == 1);
  CHECK(bench.at(5).count({"memory_c", 0}) == 1);
}

TEST_CASE("a field that goes on failing is said once") {
  Bench bench("fail 0 82 999 1\n");
  for (int i = 0; i < 30; ++i)
    bench.at(1 + 0.1 * i);
  const auto troubles = bench.take_troubles();
  REQUIRE(troubles.size() == 1);
  CHECK(contains(troubles[0], "memory_c of GPU 0 cannot be read (Unknown Error (999))"));
}

TEST_CASE("a GPU that falls off the bus is said once, and the others go on") {
  Bench bench("gpus 2\nlost 1 2\n");
  CHECK(bench.at(1).count({"power_instant_w", 1}) == 1);
  for (int tick = 5; tick < 16; ++tick) {
    const auto found = bench.at(0.5 * tick);
    CHECK(found.count({"power_instant_w", 0}) == 1);
    CHECK(found.count({"power_instant_w", 1}) == 0);
  }
  const auto troubles = bench.take_troubles();
  REQUIRE(troubles.size() == 1);
  CHECK(contains(troubles[0], "GPU 1 (0000:1b:00.0) is gone: GPU is lost (15)"));
}

TEST_CASE("GPUs come back after a driver reset, and their counters go on where they stood") {
  Bench bench("gpus 2\nstart energy 5000000000\ngpu * power hold 400\nreset 10 12\nlost 1 20 21\n");
  bench.at(1);
  CHECK(bench.value(9, "energy_j", 1) == doctest::Approx(3200));
  CHECK(bench.at(11).empty());
  CHECK(bench.at(13).empty());  // not before a second has passed
  std::this_thread::sleep_for(std::chrono::milliseconds(1050));
  // The counters began anew at 12; what they said between 9 and 15 is not known.
  const auto back = bench.at(15);
  CHECK(back.at({"energy_j", 0}).value == doctest::Approx(3200));
  CHECK(back.at({"energy_j", 1}).value == doctest::Approx(3200));
  CHECK(bench.value(16, "energy_j", 1) == doctest::Approx(3600));
  auto troubles = bench.take_troubles();
  REQUIRE(troubles.size() == 4);
  CHECK(std::ranges::count_if(troubles, [](const std::string& sentence) {
          return contains(sentence, " is back after ");
        }) == 2);
  // One GPU that is lost comes back under its own handle; the other one never stops.
  CHECK(bench.at(20.5).count({"energy_j", 0}) == 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(1050));
  CHECK(bench.at(25).at({"energy_j", 0}).value == doctest::Approx(7200));
  CHECK(bench.at(26).count({"energy_j", 1}) == 1);
}

TEST_CASE("a reading has the stamp of the sensor's update, and the same one until the next") {
  FakeNvml fake("sensor 10 0.025\n");  // updates every ten seconds: none while this runs
  auto driver = must(Driver::open(fake.library()));
  std::vector<Gap> gaps;
  GapList missing;
  const auto listed = list_device(*driver, 0, gaps);
  const auto sensor = make_sensor(std::move(driver), *listed, false, missing);
  const auto power = [&] {
    std::vector<Reading> readings;
    sensor->read(false, readings);
    for (const Reading& reading : readings)
      if (sensor->channels()[as_size(reading.channel)].about.signal == "power_instant_w")
        return reading;
    return Reading{};
  };
  const Reading first = power(), again = power();
  CHECK(first.time_ns > 0);
  CHECK(first.time_ns == again.time_ns);
  CHECK(first.time_ns <= monotonic_now_ns());
}

TEST_CASE("no GPU at all is a driver with no devices, not an error") {
  Bench bench("gpus 0\n");
  CHECK(bench.sensors.empty());
  CHECK(bench.at(1).empty());
}

TEST_CASE("a library that is not there, or not NVML, is an error with a sentence") {
  CHECK(contains(Driver::open("libno-such-thing.so.1").error().what, "libno-such-thing"));
  CHECK(Driver::open("libc.so.6").error().what == "libc.so.6 is not NVML (it lacks nvmlInit)");
  FakeNvml refusing("fail * init 9 0\n");
  CHECK(Driver::open(refusing.library()).error().what == "Driver Not Loaded (9)");
}

TEST_CASE("performance counters are read only on request, a tenth of a second apart") {
  Bench without("gpu * tensor hold 0.6\n");
  CHECK(without.channel("tensor_active") == nullptr);
  Bench old("architecture 8\n", 13, true);
  CHECK(old.channel("tensor_active") == nullptr);
  CHECK(old.says_missing("the GPU is older than Hopper"));
  Bench bench("gpu * tensor hold 0.6\n", 13, true);
  REQUIRE(bench.channel("tensor_active") != nullptr);
  CHECK(bench.channel("tensor_active")->about.kind == run::ReadingKind::average);
  CHECK(bench.at(1).count({"tensor_active", 0}) == 0);     // two samples make a reading
  CHECK(bench.at(1.02).count({"tensor_active", 0}) == 0);  // at once: too early
  std::this_thread::sleep_for(std::chrono::milliseconds(110));
  const auto now = bench.at(1.2);
  REQUIRE(now.count({"tensor_active", 0}) == 1);
  CHECK(now.at({"tensor_active", 0}).value == doctest::Approx(0.6));
}

/// A script in which half of all numbers are sentinels, at once or later.
std::string full_of_sentinels(uint64_t seed) {
  uint64_t drawn = 0;
  const auto often = [&](double share) { return random_uniform({.seed = seed}, drawn++) < share; };
  std::string script = "gpus 2\n";
  const auto perhaps = [&](const std::string& what) {
    if (often(0.5)) script += fmt::format("sentinel * {} {}\n", what, often(0.3) ? 0 : 1);
  };
  for (const int field : {186, 185, 83, 82, 138, 139, 197, 198, 74, 76, 269, 270, 271})
    perhaps(std::to_string(field));
  for (const char* const call : {"temperature", "sm_clock", "memory_clock", "utilization",
                                 "reasons", "memory", "power_limit"})
    perhaps(call);
  return script;
}

/// Far above what the made-up GPU ever says, far below any sentinel.
double highest_of(const std::string& signal) {
  if (contains(signal, "utilization")) return 1;
  if (signal.ends_with("_w")) return 2000;
  if (signal.ends_with("_c")) return 200;
  return 4.2e9;
}

TEST_CASE("whatever a driver says for nothing, no reading has it") {
  for (uint64_t round = 0; round < 20; ++round) {
    const std::string script = full_of_sentinels(round);
    CAPTURE(script);
    Bench bench(script);
    for (int tick = 1; tick < 6; ++tick)
      for (const auto& found : bench.at(0.5 * tick)) {
        const std::string& signal = found.first.first;
        CAPTURE(signal);
        CHECK(found.second.value >= 0);
        CHECK(found.second.value <= highest_of(signal));
      }
  }
}

TEST_CASE("numbers are taken by their type, and none of an error or a type unknown") {
  FieldValue field;
  field.type = static_cast<int32_t>(ValueType::u16);
  field.value.u64 = 0xdead0007;
  CHECK(number_in(field) == 7);
  field.type = static_cast<int32_t>(ValueType::i32);
  field.value.i32 = -4;
  CHECK(number_in(field) == -4);
  field.value.i32 = -1;
  CHECK_FALSE(number_in(field));
  field.type = 99;
  CHECK_FALSE(number_in(field));
  field.type = static_cast<int32_t>(ValueType::u64);
  field.value.u64 = 12;
  CHECK(number_in(field) == 12);
  field.code = Code::not_supported;
  CHECK_FALSE(number_in(field));
  CHECK_FALSE(count_in(field));
}

TEST_CASE("facts of a GPU come from its driver") {
  FakeNvml fake("gpus 1\nlinks 18\n");
  const auto driver = must(Driver::open(fake.library()));
  std::vector<Gap> gaps;
  const auto listed = must(list_device(*driver, 0, gaps));
  const DeviceFacts facts = device_facts(*driver, listed);
  CHECK(facts.architecture == "hopper");
  CHECK(facts.power_limit == 700 * unit::W);
  CHECK(facts.power_limit_min == 200 * unit::W);
  CHECK(facts.slowdown == Celsius(90));
  CHECK(facts.max_sm_clock == 1980 * unit::MHz);
  REQUIRE(facts.links.size() == 1);
  CHECK(facts.links[0].kind == LinkKind::nvswitch);
  CHECK(facts.links[0].count == 18);
  CHECK(*facts.links[0].bandwidth / (unit::GB / unit::s) == doctest::Approx(478.116));
  CHECK(facts.mig == false);
  CHECK_FALSE(facts.pcie_width_max);
  NodeFacts node;
  driver_facts(*driver, node);
  CHECK(node.nvidia_driver == "580.95.05");
  CHECK(node.cuda == "13.0");
}

}  // namespace
}  // namespace triplepoint::telemetry::nvml
