// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/logs/lay_steps.h"

#include <cmath>

#include <doctest/doctest.h>

namespace triplepoint::trace {
namespace {

constexpr int64_t second = 1'000'000'000, epoch = 1'700'000'000;

Instant at(double unix_s) {
  return Instant(std::llround(unix_s * 1e3) * 1'000'000);
}

/// Steps of `length` seconds that end at `first`, `first` + `every`, ...; `zone` hours from UTC.
TrainingLog log_of(int steps, double first, double every, double length, double zone = 0) {
  TrainingLog log;
  for (int i = 0; i < steps; ++i)
    log.steps.push_back({.step = i,
                         .time = length * unit::s,
                         .at = at(first + every * i + 3600 * zone),
                         .samples = 128});
  return log;
}

TEST_CASE("logged steps lie in a recording in any time zone") {
  for (const double zone : {0.0, 1.0, -7.0, 5.75}) {
    const auto laid = lay_steps(log_of(10, epoch + 30.25, 30, 25.5, zone), at(epoch + 60),
                                at(epoch + 151), 0.1 * unit::s);
    REQUIRE(laid.has_value());
    REQUIRE(laid->steps.size() == 3);
    CHECK(laid->zone_minutes == std::lround(60 * zone));
    CHECK(laid->steps[0].end == at(epoch + 90.25));
    CHECK(laid->steps[0].begin == at(epoch + 64.75));
    CHECK(laid->steps[0].samples == 128);
  }
}

TEST_CASE("whole seconds are stamps of which the fraction was cut") {
  // One step of 1.98 s is recorded; its line was printed in the second that follows.
  const auto laid =
      lay_steps(log_of(5, epoch, 2, 1.98), at(epoch + 2.3), at(epoch + 4.3), 0.1 * unit::s);
  REQUIRE(laid.has_value());
  REQUIRE(laid->steps.size() == 1);
  // Of the 1.98 s, 0.1 s are before the first sample.
  CHECK((laid->steps[0].end - laid->steps[0].begin) / unit::s == doctest::Approx(1.88));
  CHECK(laid->steps[0].begin >= at(epoch + 2.3));
  CHECK(laid->steps[0].end <= at(epoch + 4.3));
  CHECK(laid->resolution / unit::s == 1);
}

TEST_CASE("steps that whole seconds let overlap are laid one after the other, as long as printed") {
  TrainingLog log = log_of(4, epoch, 0, 25.43);
  // Ends 25.6 s apart, cut to seconds: the differences are 25 and 26.
  for (int i = 0; i < 4; ++i)
    log.steps[static_cast<std::size_t>(i)].at = Instant(second * (epoch + (256 * i + 5) / 10));
  const auto laid = lay_steps(log, at(epoch - 100), at(epoch + 200), Seconds());
  REQUIRE(laid.has_value());
  REQUIRE(laid->steps.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    const run::StepRecord& step = laid->steps[i];
    CHECK((step.end - step.begin) / unit::s == doctest::Approx(25.43));
    CHECK(std::abs((step.end - *log.steps[i].at) / unit::s) <= 1);
    if (i > 0) CHECK(step.begin >= laid->steps[i - 1].end);
  }
}

TEST_CASE("a log that cannot be laid on a recording says why") {
  const auto why = [](const TrainingLog& log, double begin, double end) {
    const auto laid = lay_steps(log, at(begin), at(end), 0.1 * unit::s);
    return laid ? "" : laid.error().what;
  };
  const TrainingLog log = log_of(10, epoch + 0.25, 30, 25.5);
  // Between two steps; a month later; longer than an hour, so that a step lies there in any zone.
  CHECK(why(log, epoch + 10, epoch + 30) == "none of its steps lies in the recording");
  CHECK(why(log, epoch + 30 * 86400, epoch + 30 * 86400 + 60) ==
        "none of its steps lies in the recording");
  CHECK(why(log_of(1000, epoch + 0.25, 30, 25.5), epoch + 3600, epoch + 3660) ==
        "the time zone of its dates is not known, and several fit");
  CHECK(why(log_of(10, epoch + 0.25, 10, 25.5), epoch, epoch + 400) ==
        "its step times and the dates of its lines do not agree");
  TrainingLog undated = log;
  undated.steps[3].at.reset();
  CHECK(why(undated, epoch, epoch + 400) == "its lines of steps have no date and time");
  CHECK(why({}, epoch, epoch + 400) == "it has no step time");
}

}  // namespace
}  // namespace triplepoint::trace
