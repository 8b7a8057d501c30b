// SPDX-License-Identifier: Apache-2.0
// Which communication spans of different ranks are one collective (rules: collective_match.h).
//
// Times are not used to match traces, because clocks of ranks may differ by more than a collective
// lasts; fit_clocks() needs the match to correct them. What identifies a collective is its place in
// an order that all ranks share: a communicator runs its collectives in the same order on every
// rank, so sequence numbers match, and without them positions do. Counting is safe only if all
// ranks have the same number of kernels: one that is missing shifts all that follow, and every
// later pair would be wrong. Then nothing is matched, and a remark says so. Simulated timelines
// have one clock and no numbers; there the end and the arrival of the last peer are equal to the
// nanosecond.
//
// Messages have no number that both ends share. What they share is the order of each pair of ranks
// and direction, so that is counted, with the same condition.
//
// Cost: O(n log n) in the spans of communication. Times are integer nanoseconds.
#include "triplepoint/metrics/trace/collective_match.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "triplepoint/base/text.h"

#include "triplepoint/run/issued.h"

#include "triplepoint/metrics/trace/kernel_class.h"
#include "triplepoint/metrics/trace/occupancy.h"
#include "triplepoint/metrics/trace/pair_by_time.h"
#include "triplepoint/metrics/trace/trace_lanes.h"

namespace triplepoint::metrics {

namespace {

/// What the spans of one collective share: communicator, label, sequence.
using CollectiveKey = std::tuple<int64_t, std::string_view, int64_t, int64_t>;

/// The same of a simulated one.
struct SimulatedKey {
  int32_t type = 0;
  int64_t end = 0, arrival = 0;  // of the last peer
  friend auto operator<=>(const SimulatedKey&, const SimulatedKey&) = default;
};
SimulatedKey key_of_simulated(const SpanList& spans, int32_t i) {
  return {-spans.work(i).type, spans.end(i),
          spans.begin(i) + run::whole_nanoseconds(spans.work(i).wait)};
}

class Matcher {
 public:
  Matcher(const SpanList& spans, int32_t job_ranks) : spans_(spans), timeline_(spans.timeline()) {
    int32_t given = 0;
    for (int32_t rank = 0; rank < timeline_.num_ranks; ++rank)
      given += spans.of_rank(rank).first < spans.of_rank(rank).second ? 1 : 0;
    all_ranks_given_ = job_ranks <= given;
  }

  CollectiveMatch match() {
    for (int32_t i = 0; i < spans_.size(); ++i)
      if (type_of(i).kind == run::SpanKind::communication || is_untimed_message(i)) sort_in(i);
    match_simulated();
    for (auto& [stream, ranks] : counted_)
      match_by_count(stream, ranks);
    match_messages();
    for (auto& [key, spans] : by_key_)
      result_.collectives.push_back(collective_of(key, spans));
    if (!timeline_.details.empty()) {
      pair_where_records_miss();
      refuse_impossible();
    }
    note_missing_ranks();
    std::ranges::stable_sort(result_.collectives, [](const Collective& a, const Collective& b) {
      return a.first_begin() < b.first_begin();
    });
    for (const Collective& collective : result_.collectives)
      result_.unmatched += !collective.across_ranks();
    result_.unmatched += static_cast<int64_t>(result_.alone.size());
    return std::move(result_);
  }

 private:
  using Stream = std::pair<int64_t, std::string_view>;  // communicator, label

  const run::SpanType& type_of(int32_t i) const { return spans_.type(i); }

  void sort_in(int32_t i) {
    const run::SpanDetail* detail = spans_.detail(i);
    if (detail == nullptr) return simulated_.push_back({key_of_simulated(spans_, i), i});
    const std::string_view label = label_of(type_of(i));
    if (is_message(i))
      messages_.push_back(i);
    else if (detail->communicator >= 0 && detail->sequence >= 0)
      by_key_[{detail->communicator, label, detail->sequence, 0}].push_back(i);
    else
      counted_[{detail->communicator, label}][spans_.rank(i)].push_back(i);
  }

  /// There are as many as kernels, and most are alone because one rank of their group is shown.
  void match_simulated() {
    std::ranges::sort(simulated_);
    std::vector<int32_t> parts;
    for (size_t i = 0; i < simulated_.size();) {
      const SimulatedKey key = simulated_[i].first;
      parts.clear();
      for (; i < simulated_.size() && simulated_[i].first == key; ++i)
        parts.push_back(simulated_[i].second);
      if (parts.size() == 1)
        result_.alone.push_back(parts.front());
      else
        result_.collectives.push_back(collective_of({0, label_of(type_of(parts[0])), 0, 0}, parts));
    }
    simulated_ = {};
    std::ranges::stable_sort(result_.alone, {}, [&](int32_t i) { return spans_.begin(i); });
  }

  /// The n-th of every rank belong together, unless the ranks disagree on how many there are.
  void match_by_count(const Stream& stream, const std::map<int32_t, std::vector<int32_t>>& ranks) {
    std::set<size_t> counts;
    for (const auto& [rank, spans] : ranks)
      counts.insert(spans.size());
    if (counts.size() > 1)
      result_.remarks.push_back(fmt::format(
          "{}: ranks have {} to {} kernels of it, so it cannot be matched by counting (the traces "
          "cover different time, or the ranks form several groups)",
          stream.second, *counts.begin(), *counts.rbegin()));
    for (const auto& [rank, spans] : ranks)
      for (size_t n = 0; n < spans.size(); ++n)
        by_key_[{stream.first, stream.second, static_cast<int64_t>(n),
                 // Ranks that disagree get different keys: each span is then alone in its
                 // collective.
                 counts.size() > 1 ? 1 + rank : 0}]
            .push_back(spans[n]);
  }

  /// Without a length, but in its place in the order of others.
  bool is_untimed_message(int32_t i) const {
    return run::is_untimed(type_of(i)) && spans_.detail(i) != nullptr && is_message(i);
  }
  bool is_message(int32_t i) const {
    return type_of(i).collective == spec::Collective::send_recv &&
           spans_.detail(i)->communicator >= 0;
  }
  const run::Communicator& group_of(int32_t span) const {
    const int32_t communicator = timeline_.details[as_size(span)].communicator;
    return timeline_.communicators[as_size(communicator)];
  }

  /// Numbers groups, whatever their communicators' direction and peer, and lists the ranks of each:
  /// its own list, and those whose messages the timeline has.
  void list_group_members() {
    std::map<std::tuple<std::string, std::vector<int32_t>, int32_t>, int32_t> known;
    for (const run::Communicator& group : timeline_.communicators) {
      const auto found = known.try_emplace({group.name, group.ranks, group.size},
                                           static_cast<int32_t>(known.size()));
      group_.push_back(found.first->second);
      members_[group_.back()].insert(group.ranks.begin(), group.ranks.end());
    }
    for (const int32_t span : messages_)
      members_[group_number(span)].insert(spans_.rank(span));
  }
  int32_t group_number(int32_t span) const { return group_[as_size(group_index(span))]; }

  /// The rank at the other end; -1 where it is not determined.
  int32_t peer_of(int32_t span) const {
    const run::Communicator& group = group_of(span);
    if (group.peer >= 0) return group.peer;
    const std::set<int32_t>& members = members_.at(group_number(span));
    if (members.size() != 2 || group.size > 2) return -1;
    const int32_t rank = spans_.rank(span);
    return *members.begin() == rank ? *members.rbegin() : *members.begin();
  }

  /// The n-th message that one rank sends to another is the n-th that the other gets from it.
  void match_messages() {
    // Both ends of the messages of one group from one rank to another, in order of launch.
    struct Ends {
      std::vector<int32_t> of_source, of_destination;
    };
    std::map<std::tuple<int32_t, int32_t, int32_t, bool>, Ends> pairs;
    list_group_members();
    int64_t undetermined = 0;
    for (const int32_t span : messages_) {
      const int32_t peer = peer_of(span);
      if (peer < 0) {
        if (is_untimed_message(span)) continue;
        ++undetermined;
        keep_alone(span);
        continue;
      }
      const run::Communicator& group = group_of(span);
      const int32_t rank = spans_.rank(span);
      const bool directed = group.end != run::MessageEnd::none;
      // An exchange of no known direction counts from the lower rank.
      const bool is_source = directed ? group.end == run::MessageEnd::sender : rank < peer;
      Ends& ends =
          pairs[{group_number(span), is_source ? rank : peer, is_source ? peer : rank, directed}];
      (is_source ? ends.of_source : ends.of_destination).push_back(span);
    }
    std::vector<std::string> unequal;
    for (auto& [pair, ends] : pairs) {
      sort_by_launch(ends.of_source);
      sort_by_launch(ends.of_destination);
      const bool one_sided = ends.of_source.empty() || ends.of_destination.empty();
      const bool matches = ends.of_source.size() == ends.of_destination.size();
      if (!matches && !one_sided)
        unequal.push_back(fmt::format("{} -> {}: {} sent, {} received", std::get<1>(pair),
                                      std::get<2>(pair), ends.of_source.size(),
                                      ends.of_destination.size()));
      for (size_t n = 0; n < ends.of_source.size(); ++n) {
        const int32_t other = matches ? ends.of_destination[n] : -1;
        const bool is_one = other < 0 || is_untimed_message(other);
        if (!is_untimed_message(ends.of_source[n]))
          add_message(ends.of_source[n], is_one ? -1 : other);
        else if (!is_one)
          keep_alone(other);
      }
      for (size_t n = 0; !matches && n < ends.of_destination.size(); ++n)
        if (!is_untimed_message(ends.of_destination[n])) keep_alone(ends.of_destination[n]);
    }
    if (undetermined > 0)
      result_.remarks.push_back(fmt::format(
          "{} messages of pipelines are not matched (the trace names no peer, and their group has "
          "more than two ranks)",
          undetermined));
    if (!unequal.empty())
      result_.remarks.push_back(fmt::format(
          "messages of {} pairs of ranks are not matched (their numbers differ, {}; the traces "
          "cover different time)",
          unequal.size(), unequal.front()));
  }

  void sort_by_launch(std::vector<int32_t>& spans) const {
    // Those without sound stamps are no launch's; all of a pair run in one order.
    if (std::ranges::any_of(spans, [&](int32_t i) { return is_untimed_message(i); })) return;
    std::ranges::stable_sort(spans, [&](int32_t a, int32_t b) {
      return timeline_.details[as_size(a)].correlation < timeline_.details[as_size(b)].correlation;
    });
  }

  void keep_alone(int32_t span) { add_message(span, -1); }
  void add_message(int32_t source, int32_t destination) {
    const int64_t sequence = timeline_.details[as_size(source)].sequence;
    std::vector<int32_t>& spans =
        by_key_[{group_index(source), label_of(type_of(source)), sequence, 1 + int64_t{source}}];
    spans.push_back(source);
    if (destination >= 0) spans.push_back(destination);
  }
  int32_t group_index(int32_t span) const { return timeline_.details[as_size(span)].communicator; }

  // ---- what is missing, and what cannot be

  /// One communicator's collectives as numbered.
  struct Numbered {
    int64_t matched = 0;  // spans whose match can be
    std::map<int32_t, std::vector<std::pair<int64_t, UnnumberedKernel>>> ranks;  // with the number
  };

  std::map<int32_t, Numbered> numbered_collectives() const {
    const ClockFit fit = fit_clocks(result_.collectives);
    std::map<int32_t, int64_t> offsets;
    for (const RankClock& clock : fit.ranks)
      offsets[clock.rank] = clock.offset;
    std::map<int32_t, Numbered> all;
    for (const Collective& c : result_.collectives) {
      if (c.communicator < 0 || c.is_message || c.sequence < 0) continue;
      Numbered& of_group = all[c.communicator];
      if (c.across_ranks() && can_overlap(c, offsets, fit.uncertainty()))
        of_group.matched += static_cast<int64_t>(c.parts.size());
      for (const CollectivePart& part : c.parts)
        of_group.ranks[part.rank].push_back(
            {c.sequence,
             {.span = part.span,
              .begin = part.begin,
              .end = part.end,
              .label = c.label,
              .elements = timeline_.details[as_size(part.span)].in_elements}});
    }
    return all;
  }

  /// Numbers that a reader counted begin at 0 on every rank and have no gap: they hold only if no
  /// record is missing.
  void pair_where_records_miss() {
    for (auto& [communicator, numbered] : numbered_collectives()) {
      std::map<int32_t, std::vector<UnnumberedKernel>> ranks;
      bool counted = numbered.ranks.size() > 1;
      size_t least = SIZE_MAX, most = 0, all = 0;
      for (auto& [rank, kernels] : numbered.ranks) {
        std::ranges::stable_sort(kernels, {}, [](const auto& k) { return k.first; });
        for (size_t n = 0; n < kernels.size(); ++n) {
          counted = counted && kernels[n].first == static_cast<int64_t>(n);
          ranks[rank].push_back(kernels[n].second);
        }
        least = std::min(least, kernels.size());
        most = std::max(most, kernels.size());
        all += kernels.size();
      }
      const bool equally_many = least == most;
      if (!counted || (equally_many && numbered.matched == static_cast<int64_t>(all))) continue;
      const PairedKernels paired = pair_by_time(ranks);
      const std::string& group = timeline_.communicators[as_size(communicator)].name;
      if (paired.doubt)
        result_.remarks.push_back(fmt::format(
            "which records of group {} rank {} lacks is not known: its clock may be off by {:.1f} "
            "us, or by {:.1f} us",
            group, paired.doubt->rank, as_real(paired.doubt->offset) / 1e3,
            as_real(paired.doubt->other) / 1e3));
      const bool as_good = paired.matched == numbered.matched && paired.by_given_clocks;
      if (paired.matched <= numbered.matched && !(as_good && !equally_many)) continue;
      if (are_by_number(numbered, paired)) continue;
      replace_collectives(communicator, paired.collectives);
      result_.remarks.push_back(fmt::format(
          "ranks show {} collectives of group {} (records are missing): they are paired by the "
          "ends of their kernels, not by number",
          equally_many ? fmt::format("{} different", most) : fmt::format("{} to {}", least, most),
          group));
    }
  }

  static bool are_by_number(const Numbered& numbered, const PairedKernels& paired) {
    std::map<int32_t, int64_t> number;  // by span
    for (const auto& [rank, kernels] : numbered.ranks)
      for (const auto& [n, kernel] : kernels)
        number[kernel.span] = n;
    for (size_t n = 0; n < paired.collectives.size(); ++n)
      for (const int32_t span : paired.collectives[n])
        if (number.at(span) != static_cast<int64_t>(n)) return false;
    return true;
  }

  void replace_collectives(int32_t communicator, const std::vector<std::vector<int32_t>>& all) {
    std::erase_if(result_.collectives, [&](const Collective& c) {
      return c.communicator == communicator && !c.is_message && c.sequence >= 0;
    });
    for (size_t n = 0; n < all.size(); ++n)
      result_.collectives.push_back(collective_of(
          {communicator, label_of(type_of(all[n][0])), static_cast<int64_t>(n), 0}, all[n]));
  }

  int64_t elements_of(const Collective& collective, const CollectivePart& part) const {
    const run::SpanDetail& detail = timeline_.details[as_size(part.span)];
    return std::max(detail.in_elements, collective.is_message ? detail.out_elements : int64_t{-1});
  }

  /// "...: rank 2: 4,096, the others 1,048,576 elements". Parts without a size say nothing.
  std::string mismatch_of(const Collective& collective, int64_t times) const {
    std::map<int64_t, std::vector<int32_t>> ranks;  // by size
    for (const CollectivePart& part : collective.parts)
      if (const int64_t size = elements_of(collective, part); size >= 0)
        ranks[size].push_back(part.rank);
    const auto usual =
        std::ranges::max_element(ranks, {}, [](const auto& size) { return size.second.size(); });
    std::string sizes;
    for (const auto& [size, who] : ranks)
      if (size != usual->first)
        sizes += fmt::format("rank{} {}: {}, ", who.size() > 1 ? "s" : "", fmt::join(who, ", "),
                             whole(size));
    return fmt::format(
        "{} collectives ({}) are called with different sizes: {}the others {} elements. A rank is "
        "out of step with the others, or the program divides its work wrongly.",
        times, collective.label, sizes, whole(usual->first));
  }

  /// Whether the ranks' sizes can be of one collective. Those that may differ by rank (all-to-all,
  /// broadcast) can.
  bool sizes_agree(const Collective& collective) const {
    if (collective.label != "all_reduce" && collective.label != "all_gather" &&
        collective.label != "reduce_scatter" && !collective.is_message)
      return true;
    int64_t known = -1;
    for (const CollectivePart& part : collective.parts) {
      const int64_t elements = elements_of(collective, part);
      if (elements < 0) continue;
      if (known >= 0 && elements != known) return false;
      known = elements;
    }
    return true;
  }

  /// Else collectives of one stream are taken for one group's, which they need not be.
  bool is_told(int32_t communicator) const {
    if (communicator < 0) return false;
    const run::Communicator& group = timeline_.communicators[as_size(communicator)];
    return group.size > 0 || !group.ranks.empty();
  }

  /// Each kernel lasts until all have begun; a message's sender may be done before.
  static bool can_overlap(const Collective& collective, const std::map<int32_t, int64_t>& offsets,
                          int64_t margin) {
    int64_t last_begin = INT64_MIN, first_end = INT64_MAX;
    for (const CollectivePart& part : collective.parts) {
      const int64_t offset = offsets.at(part.rank);
      last_begin = std::max(last_begin, part.begin - offset);
      first_end = std::min(first_end, part.end - offset);
    }
    if (!collective.is_message) return last_begin <= first_end + margin;
    const int64_t last_end =
        std::max(collective.parts.front().end - offsets.at(collective.parts.front().rank),
                 collective.parts.back().end - offsets.at(collective.parts.back().rank));
    return last_begin <= last_end + margin;
  }

  int64_t refuse_if(auto cannot) {
    std::vector<Collective> kept;
    int64_t refused = 0;
    for (Collective& collective : result_.collectives) {
      if (!collective.across_ranks() || !cannot(collective)) {
        kept.push_back(std::move(collective));
        continue;
      }
      ++refused;
      const CollectiveKey key{collective.communicator, collective.label, collective.sequence, 0};
      for (const CollectivePart& part : collective.parts)
        kept.push_back(collective_of(key, {part.span}));
    }
    result_.collectives = std::move(kept);
    return refused;
  }

  void refuse_impossible() {
    std::optional<Collective> differing;
    int64_t others = 0;
    const int64_t sizes = refuse_if([&](const Collective& collective) {
      if (sizes_agree(collective)) return false;
      if (!is_told(collective.communicator))
        ++others;
      else if (!differing)
        differing = collective;
      return true;
    });
    if (differing) result_.mismatch = mismatch_of(*differing, sizes - others);
    if (others > 0)
      result_.remarks.push_back(
          fmt::format("{} matches of collectives are refused: their sizes differ, so they are of "
                      "different groups, of which the trace tells none",
                      others));
    const ClockFit fit = fit_clocks(result_.collectives);
    std::map<int32_t, int64_t> offsets;
    for (const RankClock& clock : fit.ranks)
      offsets[clock.rank] = clock.offset;
    const int64_t margin = fit.uncertainty();
    const auto no_overlap = [&](const Collective& collective) {
      return !can_overlap(collective, offsets, margin);
    };
    // Where a fourth of a group's matches cannot be, its numbers are shifted: none is trusted.
    std::map<std::pair<int32_t, std::string_view>, std::pair<int64_t, int64_t>> of_group;
    for (const Collective& collective : result_.collectives) {
      if (!collective.across_ranks()) continue;
      auto& [all, impossible] = of_group[{collective.communicator, collective.label}];
      ++all;
      impossible += no_overlap(collective);
    }
    const int64_t times = refuse_if([&](const Collective& collective) {
      const auto& [all, impossible] = of_group[{collective.communicator, collective.label}];
      return 4 * impossible > all || no_overlap(collective);
    });
    if (times > 0)
      result_.remarks.push_back(fmt::format(
          "{} matches of collectives are refused: their kernels do not overlap in time, or those "
          "of most others of their group do not (clocks are known to {:.1f} us)",
          times, as_real(margin) / 1e3));
  }

  void note_missing_ranks() {
    result_.has_all_ranks = all_ranks_given_;
    std::map<int32_t, size_t> most_seen;  // by communicator; of one collective a record may be lost
    for (const Collective& collective : result_.collectives)
      if (collective.across_ranks() && collective.communicator >= 0 && !collective.is_message) {
        size_t& seen = most_seen[collective.communicator];
        seen = std::max(seen, collective.parts.size());
      }
    std::erase_if(most_seen, [&](const auto& group) {
      return static_cast<int32_t>(group.second) >= size_of(group.first);
    });
    if (most_seen.empty()) return;
    result_.has_all_ranks = false;
    const auto& [communicator, seen] = *most_seen.begin();
    const run::Communicator& group = timeline_.communicators[as_size(communicator)];
    result_.remarks.push_back(fmt::format(
        "{} of {} ranks of group {} are given{}: transfers hold waiting for the others, so "
        "bandwidths are lower limits",
        seen, size_of(communicator), group.name,
        most_seen.size() > 1 ? fmt::format(" ({} more groups are incomplete)", most_seen.size() - 1)
                             : ""));
  }

  Collective collective_of(const CollectiveKey& key, const std::vector<int32_t>& spans) const {
    const int32_t first = spans.front();
    const run::SpanDetail* detail = spans_.detail(first);
    Collective result{.label = std::get<1>(key), .name = type_of(first).name};
    if (detail != nullptr) {
      result.communicator = detail->communicator;
      result.is_message = is_message(first);
      const bool receives =
          result.is_message && group_of(spans.front()).end == run::MessageEnd::receiver;
      if (result.is_message && !receives) result.sender = spans_.rank(first);
      result.sequence = std::get<2>(key);
    } else {
      result.known_arrival = key_of_simulated(spans_, first).arrival;
      result.is_message = type_of(first).collective == spec::Collective::send_recv;
    }
    for (int32_t index : spans) {
      result.parts.push_back({spans_.rank(index), index, spans_.begin(index), spans_.end(index)});
      // Ranks may state different sizes (a root's buffer, an uneven gather); the largest is the
      // whole array.
      result.size = std::max(result.size, spans_.work(index).bytes);
    }
    std::ranges::sort(result.parts, [](const auto& a, const auto& b) { return a.rank < b.rank; });
    if (detail != nullptr) fill_in(result, *detail);
    return result;
  }

  int32_t size_of(int32_t communicator) const {  // 0: not known
    const auto& group = timeline_.communicators[as_size(communicator)];
    return group.size > 0 ? group.size : static_cast<int32_t>(group.ranks.size());
  }

  void fill_in(Collective& result, const run::SpanDetail& detail) const {
    // As in nccl-tests: elements of a rank's smaller buffer.
    result.count = result.label == "reduce_scatter" ? detail.out_elements : detail.in_elements;
    if (detail.communicator >= 0) result.group_size = size_of(detail.communicator);
    if (result.is_message) result.group_size = 2;
    if (result.group_size == 0 && result.across_ranks() && all_ranks_given_)
      result.group_size = static_cast<int32_t>(result.parts.size());
  }

  const SpanList& spans_;
  const run::Timeline& timeline_;
  std::vector<std::pair<SimulatedKey, int32_t>> simulated_;
  bool all_ranks_given_ = true;  // else a group without a name may have ranks that are not given
  std::map<CollectiveKey, std::vector<int32_t>> by_key_;
  std::map<Stream, std::map<int32_t, std::vector<int32_t>>> counted_;
  std::vector<int32_t> group_;                    // number of each communicator's group
  std::map<int32_t, std::set<int32_t>> members_;  // by number of the group
  std::vector<int32_t> messages_;
  CollectiveMatch result_;
};

/// Messages of a known group other than the stages', as a ring of context ranks, are none.
bool is_pipeline_message(const run::SpanType& type) {
  return type.collective == spec::Collective::send_recv &&
         type.group.value_or(spec::GroupKind::pipeline) == spec::GroupKind::pipeline;
}

}  // namespace

CollectiveMatch match_collectives(const SpanList& spans, int32_t job_ranks) {
  return Matcher(spans, job_ranks).match();
}

CollectiveMatch match_collectives(const run::Timeline& timeline, int32_t job_ranks) {
  const SpanList spans(timeline);
  CollectiveMatch match = match_collectives(spans, job_ranks);
  if (match.alone.empty()) return match;
  std::vector<Collective> all;
  all.reserve(match.collectives.size() + match.alone.size());
  for_each_collective(spans, match,
                      [&](const Collective& collective) { all.push_back(collective); });
  match.collectives = std::move(all);
  match.alone.clear();
  return match;
}

void make_alone(const SpanList& spans, int32_t i, Collective& made) {
  const run::SpanType& type = spans.type(i);
  made.label = label_of(type);
  made.name = type.name;
  made.size = std::max(Bytes(), spans.work(i).bytes);
  made.is_message = type.collective == spec::Collective::send_recv;
  made.known_arrival = key_of_simulated(spans, i).arrival;
  made.parts.assign(1, {spans.rank(i), i, spans.begin(i), spans.end(i)});
}

bool comes_before(const SpanList& spans, int32_t alone, const Collective& collective) {
  const int64_t begin = spans.begin(alone), other = collective.first_begin();
  if (begin != other) return begin < other;
  return key_of_simulated(spans, alone) < key_of_simulated(spans, collective.parts.front().span);
}

int32_t job_ranks_of(const run::Run& run) {
  const int64_t ranks = run.numbers.world_size.value_or(0);
  return ranks > 0 && ranks <= INT32_MAX ? static_cast<int32_t>(ranks) : 0;
}

// The timeline with the waits of the match, asked as simulated ones are: see Occupancy.

bool waits_for_schedule(const Collective& collective, const SpanList& spans) {
  if (collective.parts.empty()) return collective.is_message;
  const run::SpanType& type = spans.type(collective.parts.front().span);
  return collective.is_message ? is_pipeline_message(type) : ties_stages_together(type);
}

std::vector<ExposedWaits> exposed_waits(const run::Timeline& timeline,
                                        const CollectiveMatch& match) {
  run::Timeline known = timeline;
  for (run::SpanType& type : known.types)
    if (is_pipeline_message(type)) type.group = spec::GroupKind::pipeline;
  for (const Collective& collective : match.collectives)
    if (collective.knows_waits())
      for (const CollectivePart& part : collective.parts)
        known.spans[as_size(part.span)].wait = as_real(collective.wait_of(part)) * unit::ns;
  using A = DeviceActivity;
  return mapped(occupancy_of_ranks(known), [](const Occupancy& doing) {
    return ExposedWaits{.pipeline = doing.nanoseconds_with(
                            A::communicating, A::computing | A::exchanging | A::awaiting),
                        .late_peers = doing.nanoseconds_with(A::awaiting, A::computing)};
  });
}

}  // namespace triplepoint::metrics
