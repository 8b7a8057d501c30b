// SPDX-License-Identifier: Apache-2.0
#include "tests/doubles/fake_script.h"

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <sstream>

namespace triplepoint::doubles {
namespace {

int64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

int gpu_of(const std::string& word) {
  return word == "*" ? -1 : std::atoi(word.c_str());
}

/// "hold 300", "points 0:100 2:700", "steps 0:100 1:700 every 2".
Wave read_wave(std::istringstream& words) {
  Wave wave;
  std::string kind, word;
  words >> kind;
  if (kind == "hold") {
    words >> wave.points[0].second;
    return wave;
  }
  wave.steps = kind == "steps";
  wave.points.clear();
  while (words >> word) {
    if (word == "every") {
      words >> wave.period;
      break;
    }
    const auto colon = word.find(':');
    wave.points.emplace_back(std::atof(word.c_str()), std::atof(word.c_str() + colon + 1));
  }
  return wave;
}

Fault read_times(std::istringstream& words, Fault fault) {
  words >> fault.begin;
  if (!(words >> fault.end)) fault.end = 1e18;
  return fault;
}

using Words = std::istringstream;
using Statements = std::map<std::string, std::function<void(Words&)>>;

void add_settings(Statements& statements, Script& script) {
  statements["gpus"] = [&](Words& w) { w >> script.gpus; };
  statements["architecture"] = [&](Words& w) { w >> script.architecture; };
  statements["links"] = [&](Words& w) { w >> script.links; };
  statements["driver"] = [&](Words& w) { w >> script.driver; };
  statements["name"] = [&](Words& w) { std::getline(w >> std::ws, script.name); };
  statements["numbering"] = [&](Words& w) { w >> script.numbering; };
  statements["sensor"] = [&](Words& w) { w >> script.period >> script.window; };
  statements["counters"] = [&](Words& w) { w >> script.counter_period; };
  statements["pcie_bits"] = [&](Words& w) { w >> script.pcie_bits; };
  statements["processes"] = [&](Words& w) { w >> script.processes; };
  statements["mig"] = [&](Words& w) { w >> script.mig.emplace_back(); };
  std::string word;
  statements["start"] = [&script, word](Words& w) mutable { w >> word >> script.start[word]; };
  statements["cost"] = [&script, word](Words& w) mutable { w >> word >> script.cost[word].first; };
  statements["slow"] = [&script, word](Words& w) mutable { w >> word >> script.cost[word].second; };
  uint32_t field = 0;
  statements["latency"] = [&script, field](Words& w) mutable {
    w >> field >> script.latency_us[field];
  };
}

/// "GPU WHAT", then a code if there is one to read, then times.
Fault read_fault(Words& words, bool has_code) {
  std::string gpu;
  Fault fault;
  words >> gpu >> fault.what;
  fault.gpu = gpu_of(gpu);
  if (has_code) words >> fault.code;
  return fault;
}

void add_faults(Statements& statements, Script& script) {
  constexpr int not_supported = 3, lost = 15;
  statements["unsupported"] = [&](Words& w) {
    script.faults.push_back(read_fault(w, false));
    script.faults.back().code = not_supported;
  };
  statements["fail"] = [&](Words& w) {
    script.faults.push_back(read_times(w, read_fault(w, true)));
  };
  statements["sentinel"] = [&](Words& w) {
    script.faults.push_back(read_times(w, read_fault(w, false)));
  };
  statements["block"] = [&](Words& w) {
    script.blocks.push_back(read_times(w, read_fault(w, false)));
  };
  statements["lost"] = [&](Words& w) {
    std::string gpu;
    w >> gpu;
    script.losses.push_back(read_times(w, {.gpu = gpu_of(gpu), .code = lost}));
  };
  statements["xid"] = [&](Words& w) {
    Fault xid;
    w >> xid.gpu >> xid.code >> xid.begin;
    script.xids.push_back(xid);
  };
  statements["reset"] = [&](Words& w) { script.resets.push_back(read_times(w, {.code = lost})); };
}

}  // namespace

double Wave::once(double t) const {
  if (t <= points.front().first) return points.front().second;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const auto& [t0, v0] = points[i - 1];
    const auto& [t1, v1] = points[i];
    if (t >= t1) continue;
    return steps ? v0 : v0 + (v1 - v0) * (t - t0) / (t1 - t0);
  }
  return points.back().second;
}

double Wave::area(double t) const {
  double sum = 0, at = 0;
  const auto add_up_to = [&](double end) {
    if (end <= at) return;
    // Within a stretch the value is constant or straight: its middle is its mean.
    sum += once((at + end) / 2) * (end - at);
    at = end;
  };
  for (const auto& [time, value] : points)
    add_up_to(std::min(time, t));
  add_up_to(t);
  return sum;
}

double Wave::value(double t) const {
  return once(period > 0 ? std::fmod(t, period) : t);
}

double Wave::integral(double t) const {
  if (period <= 0 || t <= 0) return area(std::max(t, 0.0));
  const double whole = std::floor(t / period);
  return whole * area(period) + area(t - whole * period);
}

double Wave::mean(double begin, double end) const {
  begin = std::max(begin, 0.0);
  return end > begin ? (integral(end) - integral(begin)) / (end - begin) : value(end);
}

Script Script::from_environment(const char* variable) {
  const char* const path = std::getenv(variable);
  std::ostringstream text;
  if (path != nullptr) text << std::ifstream(path).rdbuf();
  return parse(text.str());
}

Script Script::parse(const std::string& text) {
  Script script;
  Statements statements;
  add_settings(statements, script);
  add_faults(statements, script);
  statements["gpu"] = [&](Words& w) {
    std::string gpu, signal;
    w >> gpu >> signal;
    script.waves_[{gpu_of(gpu), signal}] = read_wave(w);
  };
  std::istringstream lines(text);
  for (std::string line, word; std::getline(lines, line);) {
    Words words(line);
    if (!(words >> word) || word[0] == '#') continue;
    const auto statement = statements.find(word);
    if (statement == statements.end()) std::abort();  // a mistake in a test
    statement->second(words);
  }
  return script;
}

const Wave* Script::wave(int gpu, const std::string& signal) const {
  auto found = waves_.find({gpu, signal});
  if (found == waves_.end()) found = waves_.find({-1, signal});
  return found == waves_.end() ? nullptr : &found->second;
}

const Fault* Script::fault(int gpu, const std::string& what, double now) const {
  for (const Fault& fault : faults)
    if ((fault.gpu < 0 || fault.gpu == gpu) && (fault.what == what || fault.what == "all") &&
        now >= fault.begin && now < fault.end)
      return &fault;
  return nullptr;
}

std::optional<double> Script::blocked_until(int gpu, const std::string& what, double now) const {
  for (const Fault& block : blocks)
    if ((block.gpu < 0 || block.gpu == gpu) && (block.what == what || block.what == "all") &&
        now >= block.begin && now < block.end)
      return block.end;
  return std::nullopt;
}

double FakeClock::now() const {
  if (manual_) return *manual_;
  return static_cast<double>(clock_ns(CLOCK_MONOTONIC) - start_ns_) * 1e-9;
}

int64_t FakeClock::unix_us(double at) const {
  return (start_unix_ns_ + static_cast<int64_t>(at * 1e9)) / 1000;
}

void FakeClock::start() {
  if (start_ns_ != 0) return;
  const char* const given = std::getenv("TRIPLEPOINT_FAKE_START_NS");
  const int64_t now = clock_ns(CLOCK_MONOTONIC);
  start_ns_ = given != nullptr ? std::atoll(given) : now;
  start_unix_ns_ = clock_ns(CLOCK_REALTIME) - (now - start_ns_);
}

void spend(std::pair<double, double> cost) {
  const int64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + static_cast<int64_t>(cost.first * 1e9);
  while (cost.first > 0 && clock_ns(CLOCK_THREAD_CPUTIME_ID) < end) {
  }
  const auto sleep_ns = static_cast<int64_t>(cost.second * 1e9);
  const timespec length{sleep_ns / 1'000'000'000, sleep_ns % 1'000'000'000};
  if (sleep_ns > 0) nanosleep(&length, nullptr);
}

}  // namespace triplepoint::doubles
