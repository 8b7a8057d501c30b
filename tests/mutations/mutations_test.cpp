// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <set>

#include <doctest/doctest.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/run/issued.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/metrics/trace/random_trace_testing.h"
#include "triplepoint/telemetry/driver_values.h"
#include "triplepoint/telemetry/timeseries/reader.h"
#include "triplepoint/trace/read.h"

#include "formats.h"

namespace triplepoint::mutations {
namespace {

using metrics::testing::Rng;

/// The long version: TRIPLEPOINT_MUTATIONS=1000.
int64_t mutations_wanted() {
  const char* const text = std::getenv("TRIPLEPOINT_MUTATIONS");
  return text != nullptr ? std::atoll(text) : 46;
}

/// One thing that a file says: a span, or a reading.
struct Fact {
  std::string name;
  int64_t owner = 0, time = 0;
  double value = 0;  // length, or what was read
  friend auto operator<=>(const Fact&, const Fact&) = default;
};
std::string text_of(const Fact& fact) {
  return fmt::format("{} of {} at {}: {}", fact.name, fact.owner, fact.time, fact.value);
}

struct Reading {
  std::multiset<Fact> facts;
  std::vector<std::string> remarks;  // and how many events were skipped
  std::optional<std::string> refusal;
};

Reading trace_reading(const Path& path) {
  Reading reading;
  const auto trace = trace::read_trace(path, {.threads = 1});
  if (!trace) return {.refusal = trace.error().what};
  CHECK_FALSE(run::find_fault(trace->timeline));
  const bool is_log = trace->format == "training_log";  // which begins at 0
  for (size_t i = 0; i < trace->timeline.spans.size(); ++i) {
    const run::Span& span = trace->timeline.spans[i];
    if (run::is_untimed(trace->timeline.types[as_size(span.type)])) continue;
    const int64_t time = is_log ? trace->timeline.details[i].sequence
                                : span.begin.nanoseconds() + trace->epoch_in_file_ns;
    reading.facts.insert({trace->timeline.types[as_size(span.type)].name, span.rank, time,
                          (span.end - span.begin) / unit::ns});
  }
  reading.remarks = trace->skipped.reasons;
  reading.remarks.insert(reading.remarks.end(), trace->skipped.notes.begin(),
                         trace->skipped.notes.end());
  reading.remarks.push_back(fmt::format("{}", trace->skipped.events));
  return reading;
}

Reading telemetry_reading(const Path& path) {
  Reading reading;
  const auto run = telemetry::read_time_series(path, {});
  if (!run) return {.refusal = run.error().what};
  for (const run::Series& series : run->series)
    for (size_t i = 0; i < series.times.size(); ++i)
      reading.facts.insert({series.signal, series.device,
                            series.times[i].nanoseconds() + run->manifest.epoch_unix_ns.value_or(0),
                            series.values[i]});
  reading.remarks = run->manifest.notes;
  return reading;
}

Reading read(const ScratchFolder& place, const Format& format, const std::vector<Record>& records) {
  const Path path = place.file(format.file, format.write(records));
  return format.is_telemetry ? telemetry_reading(path) : trace_reading(path);
}

struct Mutation {
  size_t record = 0;
  std::string key;
  std::optional<std::string> text;
};
std::string text_of(const Mutation& one) {
  return fmt::format("{} of record {} is {}", one.key, one.record, one.text.value_or("absent"));
}

Mutation draw(const std::vector<Record>& records, Rng& rng) {
  static const std::array<std::optional<std::string>, 8> values = {
      std::nullopt, "0",    "NaN",     "9223372036854775808",
      "-1",         "1e30", "\"N/A\"", "9223372036854775807"};
  for (;;) {
    const auto record = as_size(rng.upto(static_cast<int64_t>(records.size()) - 1));
    const std::vector<Field>& fields = records[record].fields;
    const Field& field = fields[as_size(rng.upto(static_cast<int64_t>(fields.size()) - 1))];
    const auto& value = values[as_size(rng.upto(values.size() - 1))];
    const bool is_possible = field.key == "step" && value == "0";  // trainings may begin there
    if (field.is_number && !is_possible) return {record, field.key, value};
  }
}

std::multiset<Fact> without(std::multiset<Fact> all, const std::multiset<Fact>& taken) {
  for (const Fact& fact : taken)
    if (const auto found = all.find(fact); found != all.end()) all.erase(found);
  return all;
}

/// Whether a changed value may be what it says: within the time and the lengths of the others, or a
/// reading that a powered GPU can have.
bool is_possible(const Fact& fact, const std::multiset<Fact>& whole, bool is_telemetry) {
  int64_t first = INT64_MAX, last = INT64_MIN;
  double longest = 0;
  for (const Fact& one : whole) {
    first = std::min(first, one.time);
    last = std::max(last, one.time);
    longest = std::max(longest, one.value);
  }
  const double reach = 2 * as_real(last - first) + 60e9;
  const bool near = std::abs(as_real(fact.time) - as_real(first)) <= reach;
  if (!is_telemetry) return near && fact.value <= std::max(reach, longest);
  const bool needs_some = fact.name.ends_with("_w") || fact.name.ends_with("_mhz");
  return near && telemetry::plausible_range(fact.name).holds(fact.value) &&
         !(needs_some && fact.value == 0);
}

/// What is wrong with the reading of the mutated file; empty: nothing.
std::string fault_of(const Reading& whole, const Reading& rest, const Reading& mutated,
                     bool is_telemetry) {
  if (mutated.refusal) return "is refused: " + *mutated.refusal;
  const std::multiset<Fact> own = without(whole.facts, rest.facts);
  const std::multiset<Fact> others = without(whole.facts, own);
  const std::multiset<Fact> lost = without(others, mutated.facts);
  const std::multiset<Fact> fresh = without(mutated.facts, others);
  if (!lost.empty()) return "changes another: " + text_of(*lost.begin());
  if (fresh.size() > own.size()) return "adds " + text_of(*fresh.rbegin());
  for (const Fact& fact : without(fresh, own))
    if (!is_possible(fact, whole.facts, is_telemetry)) return "invents " + text_of(fact);
  if (fresh.size() < own.size() && mutated.remarks == whole.remarks)
    return "leaves out without a word " + text_of(*own.begin());
  return "";
}

TEST_CASE("one broken value changes no other number, and what is left out is told") {
  const ScratchFolder place;
  std::string misses;
  int64_t broken = 0, count = 0;
  for (const Format& format : all_formats()) {
    const std::vector<Record> records = format.records();
    const Reading whole = read(place, format, records);
    REQUIRE_MESSAGE(!whole.refusal, format.name, ": ", whole.refusal.value_or(""));
    REQUIRE_MESSAGE(whole.facts.size() >= 12, format.name);
    std::map<size_t, Reading> rests;
    Rng rng(7);
    std::set<std::string> told;
    for (int64_t n = 0; n < mutations_wanted(); ++n, ++count) {
      const Mutation mutation = draw(records, rng);
      std::vector<Record> changed = records;
      changed[mutation.record].find(mutation.key)->text = mutation.text;
      if (!rests.contains(mutation.record)) {
        std::vector<Record> fewer = records;
        fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(mutation.record));
        rests[mutation.record] = read(place, format, fewer);
      }
      const std::string fault = fault_of(whole, rests[mutation.record],
                                         read(place, format, changed), format.is_telemetry);
      if (fault.empty()) continue;
      ++broken;
      if (told.size() < 6 && told.insert(mutation.key + mutation.text.value_or("")).second)
        misses += fmt::format("\n{}: {} {}", format.name, text_of(mutation), fault);
    }
  }
  MESSAGE(count, " mutations of ", all_formats().size(), " formats");
  CAPTURE(misses);
  CHECK(broken == 0);
}

struct Planted {
  const char* what;
  run::Cause cause;
  std::vector<std::pair<std::string, std::string>> change;
};

TEST_CASE("broken cells of a table hide no cause of a slow GPU and make none") {
  const std::array all = {Planted{"power brake",
                                  run::Cause::power_brake,
                                  {{"clocks_event_reasons.active", "0x0000000000000088"},
                                   {"clocks.current.sm [MHz]", "345 MHz"},
                                   {"power.draw [W]", "210.00 W"},
                                   {"temperature.gpu", "41"}}},
                          Planted{"heat of the hardware",
                                  run::Cause::heat,
                                  {{"clocks_event_reasons.active", "0x0000000000000048"},
                                   {"clocks.current.sm [MHz]", "600 MHz"},
                                   {"power.draw [W]", "300.00 W"},
                                   {"temperature.gpu", "94"}}},
                          Planted{"heat",
                                  run::Cause::heat,
                                  {{"clocks_event_reasons.active", "0x0000000000000020"},
                                   {"clocks.current.sm [MHz]", "1200 MHz"},
                                   {"power.draw [W]", "430.00 W"},
                                   {"temperature.gpu", "90"}}},
                          Planted{"lower limit",
                                  run::Cause::power_limit,
                                  {{"clocks_event_reasons.active", "0x0000000000000004"},
                                   {"clocks.current.sm [MHz]", "1300 MHz"},
                                   {"power.draw [W]", "448.00 W"},
                                   {"enforced.power.limit [W]", "450.00 W"}}},
                          Planted{"locked clock",
                                  run::Cause::clock_lock,
                                  {{"clocks_event_reasons.active", "0x0000000000000002"},
                                   {"clocks.current.sm [MHz]", "1005 MHz"},
                                   {"power.draw [W]", "380.00 W"},
                                   {"temperature.gpu", "48"}}},
                          Planted{"none", run::Cause::unknown, {}}};
  const ScratchFolder place;
  std::string misses;
  int64_t found = 0, planted = 0, blamed = 0;
  for (const Planted& one : all)
    for (int64_t seed = 0; seed < std::max<int64_t>(8, mutations_wanted() / 8); ++seed) {
      Rng rng(static_cast<uint64_t>(seed));
      const int64_t culprit = rng.upto(7);
      std::vector<Record> records = smi_records(8, 30, culprit, one.change);
      for (int n = 0; n < 5; ++n) {
        const Mutation mutation = draw(records, rng);
        if (mutation.key != "index")
          records[mutation.record].find(mutation.key)->text = mutation.text;
      }
      const auto run = telemetry::read_time_series(place.file("smi.csv", smi_text(records)), {});
      REQUIRE_MESSAGE(run, run.error().what);
      const auto bottlenecks = metrics::measure(*run).bottlenecks;
      if (one.change.empty()) {
        blamed += static_cast<int64_t>(bottlenecks.size());
        continue;
      }
      ++planted;
      const bool right =
          bottlenecks.size() == 1 &&
          bottlenecks[0].who == std::vector<int32_t>{static_cast<int32_t>(culprit)} &&
          bottlenecks[0].cause == one.cause;
      found += right;
      if (!right)
        misses += fmt::format("\n{} {} of GPU {}: {} found, cause {}", one.what, seed, culprit,
                              bottlenecks.size(),
                              bottlenecks.empty() ? -1 : static_cast<int>(bottlenecks[0].cause));
    }
  CAPTURE(misses);
  CHECK(as_real(found) >= 0.97 * as_real(planted));
  CHECK(blamed == 0);
}

}  // namespace
}  // namespace triplepoint::mutations
