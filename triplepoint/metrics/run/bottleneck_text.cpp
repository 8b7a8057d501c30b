// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/run/bottleneck_text.h"

#include <algorithm>
#include <array>

#include "triplepoint/base/text.h"

#include "triplepoint/run/device_number.h"

#include "triplepoint/metrics/run/device_evidence.h"
#include "triplepoint/metrics/trace/own_time.h"

namespace triplepoint::metrics {
namespace {

using run::Bottleneck;
using run::Cause;
using run::Evidence;
using Kind = Evidence::Kind;

constexpr std::size_t most_listed = 4;

/// "GPU 3", "nodes 1 and 4", "GPUs 0, 1, 2, 3 and 4 more".
std::string who_text(const Bottleneck& bottleneck, const std::vector<std::string>& numbers = {}) {
  const std::vector<std::string> names = names_of(bottleneck, numbers);
  constexpr std::array words = {"GPU", "node", "rank"};
  std::string text = words[as_size(bottleneck.of)];
  if (bottleneck.who.size() > 1) text += "s";
  const std::size_t shown = std::min(most_listed, bottleneck.who.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const bool is_last = i + 1 == bottleneck.who.size();
    text += fmt::format("{} {}", i == 0 ? "" : is_last ? " and" : ",", names[i]);
  }
  if (shown < bottleneck.who.size())
    text += fmt::format(" and {} more", bottleneck.who.size() - shown);
  return text;
}

std::string capitalized(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z')
    text.front() = static_cast<char>(text.front() - 'a' + 'A');
  return text;
}

/// Whether the evidence of a reason has this name.
bool is_by(const Bottleneck& bottleneck, Kind kind, std::string_view name) {
  const Evidence* const item = find(bottleneck.evidence, kind);
  return item != nullptr && item->name == name;
}

/// The hardware holds it back, and does not say why.
bool is_any_slowdown(const Bottleneck& bottleneck) {
  return bottleneck.cause == Cause::unknown &&
         is_by(bottleneck, Kind::power_brake, any_hardware_slowdown);
}

const char* words_of(const Bottleneck& bottleneck) {
  switch (bottleneck.cause) {
    case Cause::power_limit:
      return "power limit";
    case Cause::power_cap:
      return "power cap";
    case Cause::power_brake:
      return "power brake";
    case Cause::power_delivery:
      return "held below its power limit";
    case Cause::board:
      return "its board needs more power than others";
    case Cause::heat:
      return is_by(bottleneck, Kind::heat, hardware_heat) ? "the hardware's heat limit" : "heat";
    case Cause::clock_lock:
      return "locked clock";
    case Cause::unknown:
      return is_any_slowdown(bottleneck) ? "a hardware slowdown" : "";
    case Cause::links:
    case Cause::host:
    case Cause::data_loader:
      return "";
  }
  return "";
}

std::string watts_against(const Evidence* own, double other) {
  return own == nullptr ? "" : fmt::format(", {:.0f} W against {:.0f} W", own->value, other);
}

/// "1,008 MHz against 1,850 MHz (power limit, 350 W against 700 W)"
std::string clock_text(const Bottleneck& bottleneck) {
  const Evidence* clock = find(bottleneck.evidence, Kind::clock);
  const Evidence* limit = find(bottleneck.evidence, Kind::power_limit);
  if (clock == nullptr) return "";
  std::string why = words_of(bottleneck);
  if (bottleneck.cause == Cause::power_limit && limit != nullptr) {
    why += watts_against(limit, limit->peers);
  } else if (bottleneck.cause == Cause::power_delivery && limit != nullptr) {
    why += watts_against(find(bottleneck.evidence, Kind::power), limit->value);
  } else if (is_hotter(bottleneck.evidence)) {
    const Evidence& die = *find(bottleneck.evidence, Kind::temperature);
    why += fmt::format("{}die at {:.0f} °C against {:.0f} °C", why.empty() ? "" : ", ", die.value,
                       die.peers);
  }
  const std::string who = clock->name.empty() ? "" : "its slowest, " + clock->name + ", at ";
  return fmt::format("{}{} MHz against {} MHz{}", who, significant(clock->value, 4),
                     significant(clock->peers, 4), why.empty() ? "" : " (" + why + ")");
}

std::string text_of_ns(double seconds) {
  return time_text(static_cast<int64_t>(seconds * 1e9 + 0.5));
}

/// What the worst late arrival shows.
std::string late_text(const Evidence& item) {
  const std::string time = text_of_ns(item.value);
  switch (item.kind) {
    case Kind::kernels:
      return fmt::format("kernels took {} longer than the same ones elsewhere{}", time,
                         item.name.empty() ? "" : ", most of it in " + item.name);
    case Kind::gaps:
      return fmt::format("its device had no work for {} longer", time);
    case Kind::first_seen:
      return fmt::format("it is first seen {} after the others: late, or profiled later", time);
    case Kind::late_launch:
      return fmt::format("its launch was called {} later", time);
    case Kind::data_loader:
      return fmt::format("data loader: +{}", time);
    case Kind::host_call:
      return fmt::format("its host thread was in {} (+{})", item.name, time);
    default:
      return "";
  }
}

std::string comparison(const Bottleneck& bottleneck, const std::vector<std::string>& numbers) {
  const std::string names = who_text(bottleneck, numbers);
  const char* verb = bottleneck.who.size() > 1 ? "slow" : "slows";
  const Evidence& slow = bottleneck.evidence.front();
  const std::string at = slow.name.empty() ? "" : fmt::format(" in the last step ({})", slow.name);
  switch (slow.kind) {
    case Kind::scale_up:
      return fmt::format("The links of {} slow the others: {} of their bandwidth against {}{}",
                         names, percent(slow.value), percent(slow.peers), at);
    case Kind::scale_out:
      return fmt::format("The network of {} slows the others: {} of its bandwidth against {}{}",
                         names, percent(slow.value), percent(slow.peers), at);
    case Kind::host:
      return fmt::format(
          "The host of {} slows the others: it takes {} times as long to launch a kernel as a "
          "mean host, others {}",
          names, significant(slow.value), significant(slow.peers));
    case Kind::late_arrivals:
      break;
    default:
      return fmt::format("{} {} the others: {}", capitalized(names), verb, clock_text(bottleneck));
  }
  std::string text =
      fmt::format("{} {} the others{}: last into {:.0f} of {:.0f} collectives", capitalized(names),
                  verb, bottleneck.is_partial ? " of the ranks given" : "", slow.value, slow.peers);
  if (bottleneck.waits)
    text += fmt::format("; its delays cost all others together {}",
                        text_of_ns(*bottleneck.waits / unit::s));
  std::string worst;
  for (const Evidence& item : bottleneck.evidence)
    if (const std::string more = late_text(item); !more.empty())
      worst += (worst.empty() ? ". Where it was latest, " : "; ") + more;
  if (has_lower_clock(bottleneck.evidence)) worst += "; " + clock_text(bottleneck);
  return text + worst;
}

/// Of ranks none of which is late beyond the noise; empty where they hardly wait.
std::string taking_turns(const run::Run& run, const LateRanks& late) {
  constexpr double least_share = 0.01;  // of the ranks' time; less is not worth a sentence
  int64_t waits = 0, times = 0;
  bool leaves_out = false;
  for (const LateStart& start : late.starts) {
    leaves_out |= start.is_first && start.waits > 0;
    if (start.is_first || start.by_order) continue;
    waits += start.waits;
    times += start.lead > 0;
  }
  const auto extent = run::extent(run.timeline);
  if (!extent || times == 0) return "";
  const double whole = (extent->end - extent->begin) / unit::ns * as_real(late.ranks.size());
  const double share = as_real(waits) / whole;
  if (share < least_share) return "";
  const auto last = [](const RankLateness& rank) { return rank.times_last > 0; };
  const auto most = std::ranges::max_element(late.ranks, {}, &RankLateness::caused);
  const auto in_turn = std::ranges::count_if(late.ranks, last);
  return fmt::format(
      "No single rank is late beyond the noise, but waiting for the last to begin costs {} of the "
      "ranks' time{}: {}rank {}{} last into {} of {} collectives, for which "
      "the others waited {}. See the causes by collective.",
      percent(share),
      leaves_out ? " (first collectives aside, which profilers may have missed in part)" : "",
      in_turn > 1 ? fmt::format("{} ranks take turns, ", in_turn) : "", most->rank,
      in_turn > 1 ? " most," : " is", most->times_last, most->collectives, time_text(most->caused));
}

std::string nobody_is_late(const run::Run& run, const LateRanks& late) {
  if (run.manifest.origin == run::Origin::simulated)
    return "No GPU, link or host slows the step by 1 % or more.";
  const auto communicates = [](const RankLateness& r) { return r.in_communication > 0; };
  const auto ranks = std::ranges::count_if(late.ranks, communicates);
  if (late.starts.empty() && ranks > 1)
    return fmt::format(
        "Collectives are seen on {} ranks, but none of one rank could be matched with one of "
        "another, so lateness is unknown.",
        ranks);
  if (late.starts.empty())
    return "No collective of a measured length is seen on more than one rank, so lateness is "
           "unknown.";
  if (std::ranges::all_of(late.starts, &LateStart::is_first))
    return "Only the first collective of ranks is seen on more than one, and that cannot tell "
           "lateness from a profiler that began later: lateness is unknown.";
  if (std::string turns = taking_turns(run, late); !turns.empty()) return turns;
  const bool together = std::ranges::all_of(
      late.starts, [](const LateStart& start) { return start.start_spread == 0; });
  return fmt::format("{} is late: {}.", late.has_all_ranks ? "No rank" : "None of the ranks given",
                     together ? "all ranks begin their collectives together"
                              : "no rank's own delays are beyond the noise");
}

}  // namespace

std::vector<std::string> names_of(const Bottleneck& bottleneck,
                                  const std::vector<std::string>& numbers) {
  return mapped(bottleneck.who, [&](const int32_t who) {
    return bottleneck.of == Bottleneck::Of::gpu ? run::device_number(numbers, as_size(who))
                                                : std::to_string(who);
  });
}

std::string bottleneck_sentence(const Bottleneck& bottleneck, std::optional<Seconds> step_time,
                                const std::vector<std::string>& numbers) {
  if (!bottleneck.cost || !step_time || *bottleneck.cost >= *step_time)
    return comparison(bottleneck, numbers) + ".";
  const Seconds cost = *bottleneck.cost;
  const double longer = cost / (*step_time - cost);
  return fmt::format("{}; the step takes {}{} longer, {} s, than at the median of the peers.",
                     comparison(bottleneck, numbers), bottleneck.at_most ? "at most " : "",
                     percent(longer), significant(cost / unit::s));
}

std::string bottleneck_advice(const Bottleneck& bottleneck) {
  const bool many = bottleneck.who.size() > 1;
  const char* const its = many ? "their" : "its";
  const char* const it = many ? "them" : "it";
  switch (bottleneck.cause) {
    case Cause::links:
      if (bottleneck.evidence.front().kind == Kind::scale_out)
        return "Check the NICs, cables and switch ports of that node.";
      return fmt::format("Check {} links (nvidia-smi nvlink -s, amd-smi xgmi), or leave {} out.",
                         its, many ? "these GPUs" : "the GPU");
    case Cause::host:
      if (const Evidence* const call = find(bottleneck.evidence, Kind::host_call);
          call != nullptr && host_call_kind(call->name) == HostCallKind::allocator)
        return "Free memory, or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: its "
               "allocator gives memory back and asks for it again.";
      return "Look for other processes, the CPU's clock and the binding of ranks to cores.";
    case Cause::data_loader:
      return fmt::format("Give {} data loader more workers, or faster storage.", its);
    case Cause::power_limit:
      return fmt::format(
          "Give {} the power limit of {} peers (nvidia-smi -pl, amd-smi set --power-cap).", it,
          its);
    case Cause::power_cap:
      return fmt::format(
          "Compare {} power limit with {} peers' (nvidia-smi -q -d POWER, amd-smi static --limit).",
          its, its);
    case Cause::power_brake:
      return "End the power brake: check power supplies and the platform's power budget.";
    case Cause::power_delivery:
      return fmt::format("Check {} board, power cables and the platform's power budget.", its);
    case Cause::clock_lock:
      return "Release the lock (nvidia-smi -rgc, amd-smi reset --clocks).";
    case Cause::heat:  // of a whole node: what its GPUs have in common
      if (bottleneck.of == Bottleneck::Of::node)
        return fmt::format("Check the fans and the inlet of {}, or give {} less work.",
                           who_text(bottleneck), it);
      return fmt::format(
          "Check {} {} and paste, then the fans and the inlet of {} node, or give {} less work.",
          its, many ? "heat sinks" : "heat sink", its, it);
    case Cause::board:
      return fmt::format("Give {} less work (triplepoint place), or exchange the {}.", it,
                         many ? "boards" : "board");
    case Cause::unknown:
      break;
  }
  if (is_any_slowdown(bottleneck))
    return fmt::format(
        "Check {} power supply, cables and cooling: the hardware does not say which.", its);
  if (find(bottleneck.evidence, Kind::first_seen) != nullptr)
    return "Leave out the first step, in which profilers begin one after the other.";
  if (find(bottleneck.evidence, Kind::clock) == nullptr)
    return fmt::format("Record {} clock, power and temperature meanwhile (triplepoint record).",
                       its);
  return fmt::format(
      "Compare {0} clock event reasons, power limit and temperature with {0} peers'.", its);
}

std::string evidence_label(const Evidence& item) {
  const char* label = word_for<Kind::clock_lock>(
      {"SM clock (MHz)", "links (share)", "network (share)", "host (time factor)",
       "collectives begun last", "kernels longer by (s)", "without work longer by (s)",
       "first seen later by (s)", "launched later by (s)", "data loader longer by (s)",
       "host call longer by (s)", "power limit (W)", "power (W)", "die (°C)",
       "at the power cap (share)", "at the power brake (share)", "throttled by heat (share)",
       "locked clock (share)"},
      item.kind);
  return item.name.empty() ? label : fmt::format("{}: {}", label, item.name);
}

std::vector<std::string> lateness_sentences(const run::Run& run, const LateRanks& late,
                                            const std::vector<Bottleneck>& bottlenecks,
                                            std::optional<Seconds> step_time) {
  std::vector<std::string> lines;
  if (!late.mismatch.empty()) lines.push_back(late.mismatch);
  for (const Bottleneck& bottleneck : bottlenecks)
    lines.push_back(bottleneck_sentence(bottleneck, step_time, run::device_numbers(run)) + " " +
                    bottleneck_advice(bottleneck));
  if (bottlenecks.empty()) lines.push_back(nobody_is_late(run, late));
  const bool of_ranks = !bottlenecks.empty() && bottlenecks.front().of == Bottleneck::Of::rank;
  if (!of_ranks || !late.naive_straggler || late.naive_straggler == late.straggler) return lines;
  const auto of = [&](int32_t rank) {
    return *std::ranges::find(late.ranks, rank, &RankLateness::rank);
  };
  const RankLateness naive = of(*late.naive_straggler), worst = of(*late.straggler);
  lines.push_back(fmt::format(
      "By communication time alone rank {} looks slowest, with {} against {} of rank {}; {} of "
      "that is waiting for others.",
      naive.rank, time_text(naive.in_communication), time_text(worst.in_communication), worst.rank,
      time_text(naive.waited)));
  return lines;
}

}  // namespace triplepoint::metrics
