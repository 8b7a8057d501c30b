// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// What the made-up drivers do, read from a text file; its statements are in README.md beside this.
namespace triplepoint::doubles {

/// A number over time, s: straight lines between points, or steps; repeated every `period` if that
/// is not 0. Before the first point it has the first value, after the last one the last.
struct Wave {
  std::vector<std::pair<double, double>> points{{0, 0}};
  bool steps = false;
  double period = 0;

  double value(double t) const;
  double integral(double t) const;  // from 0, exactly
  double mean(double begin, double end) const;

 private:
  double once(double t) const;  // without repeating
  double area(double t) const;  // from 0, without repeating
};

/// A stretch of time in which something answers with a code (or, at code 0, with a sentinel).
struct Fault {
  int gpu = -1;      // -1: all
  std::string what;  // number of a field, name of a call, "all"
  double begin = 0, end = 1e18;
  int code = 0;
};

class Script {
 public:
  /// The file named by this variable of the environment; nothing in it: one idle GPU.
  static Script from_environment(const char* variable);
  static Script parse(const std::string& text);

  int gpus = 1;
  int architecture = 9, links = 18;
  std::string driver = "580.95.05", name = "NVIDIA H100 80GB HBM3";
  int numbering = 269;                  // of thermal residency fields: 251 or 269
  double period = 0.1, window = 0.025;  // of instant power, s
  double counter_period = 0.1;          // of energy and residency
  int pcie_bits = 64;
  std::map<std::string, uint64_t> start;                  // first values of counters
  std::map<std::string, std::pair<double, double>> cost;  // of a call: CPU and sleep, s
  std::map<uint32_t, int64_t> latency_us;                 // of a field
  std::vector<Fault> faults;
  std::vector<Fault> blocks;  // calls that do not return before `end`
  std::vector<Fault> losses;  // of a GPU: code 15; its handle stays void afterwards
  std::vector<Fault> resets;  // of the driver
  std::vector<Fault> xids;    // code: the number; in the order of time
  std::vector<int> mig;
  std::string processes;  // file with lines "GPU PID", read at every call

  /// The wave of a GPU, or of all ("*"); nothing if the script has none.
  const Wave* wave(int gpu, const std::string& signal) const;
  /// Until when a call of this GPU (-1: of none) blocks; nothing if it does not.
  std::optional<double> blocked_until(int gpu, const std::string& what, double now) const;
  /// The fault that holds now for a call or field of this GPU.
  const Fault* fault(int gpu, const std::string& what, double now) const;

 private:
  std::map<std::pair<int, std::string>, Wave> waves_;
};

/// The script's clock: s since the first use, or since TRIPLEPOINT_FAKE_START_NS (CLOCK_MONOTONIC);
/// a test in the same process may turn it itself.
class FakeClock {
 public:
  double now() const;
  int64_t unix_us(double at) const;  // time of day of a moment of the script
  void set(double now) { manual_ = now; }
  void start();

 private:
  int64_t start_ns_ = 0, start_unix_ns_ = 0;
  std::optional<double> manual_;
};

/// Burns CPU time of this thread, then sleeps.
void spend(std::pair<double, double> cost);

}  // namespace triplepoint::doubles
