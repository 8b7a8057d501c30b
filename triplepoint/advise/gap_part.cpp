// SPDX-License-Identifier: Apache-2.0
// What patterns of steps are called, and what to do about them.
#include "triplepoint/advise/gap_part.h"

#include <algorithm>
#include <span>
#include <utility>

#include "triplepoint/base/text.h"

namespace triplepoint::advise {

std::string time_of(Seconds time) {
  return abs(time) < 0.1 * unit::s ? significant(time / unit::ms) + " ms"
                                   : significant(time / unit::s) + " s";
}

namespace {

using metrics::StepPattern;

struct PatternWords {
  std::string cause, what, advice, confirm;
};

PatternWords words_of_levels(const StepPattern& pattern) {
  std::string levels;
  constexpr size_t most = 6;  // the table has all
  const size_t count = pattern.levels.size(), shown = std::min(most, count);
  for (const metrics::StepLevel& level : std::span(pattern.levels).first(shown))
    levels += fmt::format("{}{} from {:.0f} s on", levels.empty() ? "" : ", ", time_of(level.time),
                          level.begin / unit::s);
  if (shown < count) levels += fmt::format(", {} more", count - shown);
  if (pattern.after_pauses)
    return {"relaunch", "steps take another time since the training stood still (" + levels + ")",
            "compare what began again then: nodes, settings, software, data",
            "other nodes, another launch, or a GPU that is slow since then"};
  if (pattern.kind == StepPattern::Kind::spell)
    return {
        "spell", "steps were slower for a while and recovered without a pause (" + levels + ")",
        "look at what else used the network, the storage or the nodes then",
        "a shared resource: NIC counters, storage latency, other jobs' hours; no clock changes"};
  return {"slowdown",
          "steps get slower in phases and stay so (" + levels +
              "): a GPU that gets too hot does that, and so does a network or storage that gets "
              "worse",
          "record clocks and temperatures (triplepoint record) to tell which; if one GPU "
          "throttles, take it out, as the others wait for it",
          "one GPU: die at its target temperature, software or hardware thermal slowdown, clock "
          "down when the second phase begins; the others cool at full clock"};
}

PatternWords pattern_words(const StepPattern& pattern, Seconds base) {
  using Kind = StepPattern::Kind;
  const std::string each = time_of(pattern.excess);
  switch (pattern.kind) {
    case Kind::start:
      return {"start",
              pattern.count == 1
                  ? fmt::format("the first step takes {} longer", each)
                  : fmt::format("the first {} steps take {} longer each", pattern.count, each),
              "nothing, if the training is long: compilation, allocation and connections", ""};
    case Kind::drift:
      if (pattern.time_constant == Seconds())
        return {"trend",
                fmt::format("steps get longer all along, by {} in the end: no mere warming",
                            percent(pattern.amplitude)),
                "look at what grows: sequences, memory in use, what is logged, the load of others",
                "clocks stay; work, memory or waiting grow"};
      return {"warm_up",
              fmt::format("steps get {} slower with a time constant of {:.0f} s{}",
                          percent(pattern.amplitude), pattern.time_constant / unit::s,
                          pattern.after_pauses ? ", and again after pauses" : ""),
              "record clocks and temperatures (triplepoint record); if clocks fall as dies warm, "
              "cool better or lower the power limit a little",
              "dies warm with that time constant, power at its limit, clocks fall as dies warm"};
    case Kind::slowdown:
    case Kind::spell:
      return words_of_levels(pattern);
    case Kind::periodic:
      if (pattern.is_pause || pattern.excess > base)
        return {"checkpoint",
                fmt::format("every {} steps {} {}{}, {} times (checkpoint or evaluation)",
                            pattern.period,
                            pattern.is_pause ? "the training stands still for" : "one takes", each,
                            pattern.is_pause ? "" : " longer", pattern.count),
                "save asynchronously or to faster storage; save and evaluate less often",
                "writes at that time"};
      return {"garbage_collection",
              fmt::format("every {} steps one takes {} longer, {} times (garbage collection, "
                          "logging, or a data shard)",
                          pattern.period, each, pattern.count),
              "collect garbage on all ranks at the same step (--manual-gc), log less often",
              "idle GPUs, one core busy in Python at that time"};
    case Kind::tails:
      return {"tails",
              pattern.count == 1
                  ? fmt::format("one step takes {} longer", each)
                  : fmt::format("{} single steps take {} longer each", pattern.count, each),
              "trace such a step: data loader, allocator retries, network",
              "which GPU is idle then, storage and NIC counters"};
    case Kind::between:
      return {"between_steps", fmt::format("{} pass between any two steps", each),
              "look at what the loop does there: data loading, logging, a synchronization",
              "idle GPUs, a busy core"};
    case Kind::pauses:
      return {"pauses",
              pattern.count == 1
                  ? fmt::format("the training stood still once, for {}", each)
                  : fmt::format("the training stood still {} times, {} each", pattern.count, each),
              "look for restarts, evaluation and failures at these times", "idle GPUs"};
  }
  return {};
}

}  // namespace

GapPart part_of(const StepPattern& pattern, Seconds base) {
  PatternWords words = pattern_words(pattern, base);
  return {.cause = std::move(words.cause),
          .what = std::move(words.what),
          .seen_in = "steps",
          .cost = pattern.cost,
          .probability = pattern.probability,
          .advice = std::move(words.advice),
          .confirm = std::move(words.confirm)};
}

}  // namespace triplepoint::advise
