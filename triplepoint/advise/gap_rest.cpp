// SPDX-License-Identifier: Apache-2.0
// What is left of a gap, by what the devices do.
#include <array>

#include "triplepoint/base/text.h"

#include "triplepoint/advise/gap_model.h"

namespace triplepoint::advise {
namespace {

using metrics::StepParts;

struct PartWords {
  Seconds (*of)(const StepParts&);
  Seconds (*explained)(const Explained&);
  const char *cause, *name, *what, *advice;
};
constexpr std::array<PartWords, 5> part_words = {
    {{[](const StepParts& p) { return p.exposed_communication; },
      [](const Explained&) { return Seconds(); }, "exposed_communication", "communication",
      "communication that nothing hides",
      "overlap it, use larger buckets, or look at the links (triplepoint trace comm)"},
     {idle_of, [](const Explained& e) { return e.idle_in_calls; }, "host", "idle time",
      "GPUs without work, as the host is late or the schedule leaves gaps",
      "use CUDA graphs or fewer, larger kernels; bind ranks to cores"},
     {[](const StepParts& p) { return p.waiting; },
      [](const Explained& e) { return e.ranks + e.clocks + e.waiting_in_calls; }, "waiting",
      "waiting", "ranks wait for each other in collectives",
      "even out the work of ranks (triplepoint trace stragglers)"},
     {[](const StepParts& p) { return p.computing; }, [](const Explained& e) { return e.cores; },
      "computing", "kernels", "kernels take longer",
      "compare kernels with triplepoint trace diff and clocks with a recording"},
     {[](const StepParts& p) { return p.copying; }, [](const Explained&) { return Seconds(); },
      "copies", "copies", "copies that nothing hides", "pin memory, and copy on another stream"}}};

}  // namespace

Seconds idle_of(const StepParts& parts) {
  return parts.gaps + parts.bubble;
}

std::vector<Excess> excesses_of(const StepParts& seen, const StepParts& plain,
                                const StepParts& before, const StepParts& after,
                                const Explained& explained) {
  std::vector<Excess> all;
  for (size_t i = 0; i < part_words.size(); ++i) {
    const PartWords& words = part_words[i];
    const Seconds own = words.of(seen);
    const Seconds usual = words.of(plain) + (words.of(after) - words.of(before));
    all.push_back({i, words.of == idle_of, own, usual, own - usual - words.explained(explained)});
  }
  return all;
}

std::optional<GapPart> part_of_one_factor(const std::vector<Excess>& all, bool against_recording,
                                          bool knows_clocks) {
  constexpr double most_apart = 1.0 / 3, large = 0.05;
  Seconds usual, excess;
  for (const Excess& one : all) {
    usual += one.usual;
    excess += one.excess;
  }
  if (!(usual > Seconds())) return std::nullopt;
  const double factor = excess / usual;
  std::vector<std::string> shares;
  for (const Excess& one : all) {
    const bool is_large = one.usual > large * usual;
    const Seconds expected = factor * one.usual;
    if (abs(one.excess - expected) > most_apart * (is_large ? expected : excess))
      return std::nullopt;
    if (is_large)
      shares.push_back(
          fmt::format("{} {}", part_words[one.part].name, percent(one.excess / one.usual)));
  }
  if (shares.size() < 2) return std::nullopt;
  return GapPart{
      .cause = "everything",
      .what = fmt::format("everything takes {} longer ({}), as {}on a slower machine{}",
                          percent(factor), fmt::join(shares, ", "),
                          knows_clocks ? "" : "at a lower clock or ",
                          against_recording ? "" : ", or the prediction is off"),
      .seen_in = "traces",
      .cost = excess,
      .advice = against_recording
                    ? "compare clocks, power modes and other programs of the two runs"
                    : "compare the clocks with a recording, or calibrate with a run that is well "
                      "(triplepoint calibrate)"};
}

GapPart part_of(const Excess& one, std::string_view expected) {
  const PartWords& words = part_words[one.part];
  return {.cause = words.cause,
          .what = fmt::format("{}: {}, {} are {}", words.what, time_of(one.own), expected,
                              time_of(one.usual)),
          .seen_in = "traces",
          .cost = one.excess,
          .advice = words.advice};
}

}  // namespace triplepoint::advise
