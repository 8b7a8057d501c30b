// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/hangs.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "triplepoint/base/text.h"

#include "triplepoint/metrics/trace/kernel_class.h"
#include "triplepoint/metrics/trace/late_ranks.h"
#include "triplepoint/metrics/trace/trace_lanes.h"

namespace triplepoint::metrics {
namespace {

using run::IssueState;

const std::string& name_of_group(const run::Timeline& timeline, const PendingCollective& pending) {
  return timeline.communicators[as_size(pending.communicator)].name;
}

/// "number 3 of group 0 default_pg".
std::string place_of(const run::Timeline& timeline, const PendingCollective& pending) {
  return fmt::format("number {} of group {}", pending.sequence, name_of_group(timeline, pending));
}

std::string call_of(const IssuePart& part) {
  return part.elements < 0 ? std::string(part.label)
                           : fmt::format("{} of {} elements", part.label, part.elements);
}

class HangFinder {
 public:
  explicit HangFinder(const run::Timeline& timeline)
      : timeline_(timeline), given_(given_ranks(timeline)) {}

  std::optional<HangReport> find() {
    bool any = false;
    for (size_t i = 0; i < timeline_.spans.size(); ++i)
      any = take(i) || any;
    if (!any) return std::nullopt;
    for (const auto& [communicator, sequences] : groups_)
      look_at(communicator, sequences);
    for (const auto& [pair, ends] : messages_)
      report_.waiting += std::max(ends.first, ends.second);
    report_.missing = last_waited_for();
    if (report_.missing.empty()) {
      wait_for_messages();
      report_.missing = last_waited_for();
    }
    const std::set<int32_t> differing = ranks_that_differ();
    report_.differing.assign(differing.begin(), differing.end());
    return std::move(report_);
  }

 private:
  using Parts = std::vector<IssuePart>;
  using Pair = std::tuple<std::string, int32_t, int32_t>;  // name, sender, receiver

  const run::Communicator& group(int32_t communicator) const {
    return timeline_.communicators[as_size(communicator)];
  }

  /// Whether the span is an issue. Collectives that were timed are finished ones.
  bool take(size_t i) {
    const run::Span& span = timeline_.spans[i];
    const run::SpanType& type = type_of(timeline_, span);
    const auto state = run::issue_state(type);
    const run::SpanDetail& detail = timeline_.details[i];
    if ((!state && type.kind != run::SpanKind::communication) || detail.communicator < 0 ||
        detail.sequence < 0)
      return state.has_value();
    IssuePart part{.rank = span.rank,
                   .span = i,
                   .issued = span.begin.nanoseconds(),
                   .state = state.value_or(IssueState::completed),
                   .label = type.collective ? spec::name_of(*type.collective) : type.name};
    if (part.label == "all_reduce" || part.label == "all_gather" || part.label == "reduce_scatter")
      part.elements = detail.in_elements;
    const run::Communicator& of = group(detail.communicator);
    if (type.collective != spec::Collective::send_recv)
      add_part(groups_[detail.communicator][detail.sequence], part);
    else if (part.state != IssueState::completed && of.end != run::MessageEnd::none) {
      const bool sends = of.end == run::MessageEnd::sender;
      auto& ends =
          messages_[Pair{of.name, sends ? span.rank : of.peer, sends ? of.peer : span.rank}];
      ++(sends ? ends.first : ends.second);
    } else {
      report_.waiting += part.state != IssueState::completed;
    }
    return state.has_value();
  }

  /// Parts of one operation that was not closed share its number: a rank is there once.
  static void add_part(Parts& parts, const IssuePart& part) {
    const auto same = [&](const IssuePart& known) { return known.rank == part.rank; };
    if (std::ranges::none_of(parts, same)) parts.push_back(part);
  }

  void look_at(int32_t communicator, const std::map<int64_t, Parts>& sequences) {
    std::map<int32_t, int64_t> last;  // number of each rank
    for (const auto& [sequence, parts] : sequences)
      for (const IssuePart& part : parts)
        last[part.rank] = std::max(sequence, last.try_emplace(part.rank, sequence).first->second);
    for (const auto& [sequence, parts] : sequences)
      report_.waiting += std::ranges::any_of(
          parts, [](const IssuePart& part) { return part.state != IssueState::completed; });
    std::optional<PendingCollective> first;
    for (const auto& [sequence, parts] : sequences) {
      PendingCollective pending = pending_of(communicator, sequence, parts, last);
      const bool tells = !pending.never.empty() || pending.kinds_differ || pending.sizes_differ;
      if (!tells && (!report_.latest || pending.spread() > report_.latest->spread()))
        report_.latest = pending;
      if (!pending.is_waited_in()) continue;
      if (!first || tells) first = std::move(pending);
      if (tells) break;
    }
    if (!first) return;
    for (const IssuePart& part : first->parts)
      for (const int32_t rank : first->never)
        if (part.state != IssueState::completed) waits_for_[part.rank].insert(rank);
    report_.pending.push_back(*std::move(first));
  }

  PendingCollective pending_of(int32_t communicator, int64_t sequence, const Parts& parts,
                               const std::map<int32_t, int64_t>& last) const {
    PendingCollective pending;
    pending.communicator = communicator;
    pending.sequence = sequence;
    pending.parts = parts;
    std::ranges::sort(pending.parts, {}, &IssuePart::rank);
    std::set<int32_t> members(group(communicator).ranks.begin(), group(communicator).ranks.end());
    for (const auto& [rank, number] : last)
      members.insert(rank);
    for (const IssuePart& part : parts)
      members.erase(part.rank);
    for (const int32_t rank : members) {
      const auto known = last.find(rank);
      if (!given_.contains(rank))
        pending.unknown.push_back(rank);
      else if (known == last.end() || known->second < sequence)
        pending.never.push_back(rank);
    }
    std::map<std::string_view, std::set<int64_t>> sizes;  // of each kind, those that are known
    for (const IssuePart& part : pending.parts)
      if (std::set<int64_t>& known = sizes[part.label]; part.elements >= 0)
        known.insert(part.elements);
    pending.kinds_differ = sizes.size() > 1;
    pending.sizes_differ =
        std::ranges::any_of(sizes, [](const auto& of_kind) { return of_kind.second.size() > 1; });
    return pending;
  }

  void wait_for_messages() {
    for (const auto& [pair, ends] : messages_) {
      const auto& [name, sender, receiver] = pair;
      const auto& [sent, received] = ends;
      if (sent > received && given_.contains(receiver)) waits_for_[sender].insert(receiver);
      if (received > sent && given_.contains(sender)) waits_for_[receiver].insert(sender);
    }
  }

  std::vector<int32_t> last_waited_for() const {
    std::set<int32_t> waited_for;
    for (const auto& [rank, others] : waits_for_)
      waited_for.insert(others.begin(), others.end());
    const std::vector<int32_t> last =
        filtered(waited_for, [&](const int32_t rank) { return !waits_for_.contains(rank); });
    return last.empty() ? std::vector<int32_t>(waited_for.begin(), waited_for.end()) : last;
  }

  /// Those of a collective that issued what fewer than half of them did; all if none did.
  std::set<int32_t> ranks_that_differ() const {
    std::set<int32_t> ranks;
    for (const PendingCollective& pending : report_.pending) {
      if (!pending.kinds_differ && !pending.sizes_differ) continue;
      std::map<std::pair<std::string_view, int64_t>, std::vector<int32_t>> kinds;
      for (const IssuePart& part : pending.parts)
        kinds[{part.label, part.elements}].push_back(part.rank);
      size_t most = 0;
      for (const auto& [kind, own] : kinds)
        most = std::max(most, own.size());
      for (const auto& [kind, own] : kinds)
        if (2 * most <= pending.parts.size() || own.size() < most)
          ranks.insert(own.begin(), own.end());
    }
    return ranks;
  }

  const run::Timeline& timeline_;
  std::set<int32_t> given_;
  std::map<int32_t, std::map<int64_t, Parts>> groups_;
  std::map<Pair, std::pair<int64_t, int64_t>> messages_;  // pending: sent, received
  std::map<int32_t, std::set<int32_t>> waits_for_;
  HangReport report_;
};

/// Of the groups in which one of `ranks` is missing, one sentence for the first, and how many more.
std::string never_issued(const run::Timeline& timeline, const HangReport& report,
                         const std::vector<int32_t>& ranks) {
  const PendingCollective* first = nullptr;
  int64_t more = -1;
  for (const PendingCollective& pending : report.pending) {
    const bool lacks =
        std::ranges::any_of(pending.never, [&](int32_t rank) { return holds(ranks, rank); });
    if (!lacks) continue;
    if (first == nullptr) first = &pending;
    ++more;
  }
  if (first == nullptr)
    return fmt::format("never issued the messages that {} peers wait for",
                       ranks.size() == 1 ? "its" : "their");
  std::vector<int32_t> waiting;
  for (const IssuePart& part : first->parts)
    if (part.state != IssueState::completed) waiting.push_back(part.rank);
  std::string text = fmt::format("never issued {}, {}, in which {} wait{}",
                                 place_of(timeline, *first), call_of(first->parts.front()),
                                 rank_words(waiting), waiting.size() == 1 ? "s" : "");
  if (more > 0) text += fmt::format(", nor what is waited for in {} more groups", more);
  return text;
}

/// Where a rank was last: its last issue, with the program's frame where it is known.
std::string last_of(const run::Timeline& timeline, int32_t rank) {
  const auto [first, last] = run::detail::items_of_rank(timeline.spans, rank);
  for (const run::Span* span = last; span != first;) {
    --span;
    const run::SpanType& type = type_of(timeline, *span);
    const auto place = as_size(span - timeline.spans.data());
    const int32_t communicator = timeline.details[place].communicator;
    if (communicator < 0) continue;
    const std::string_view frame = frame_of_issue(timeline, place);
    return fmt::format("Rank {} issued last: {}, number {} of group {}{}.", rank, type.name,
                       timeline.details[place].sequence,
                       timeline.communicators[as_size(communicator)].name,
                       frame.empty() ? "" : fmt::format(", at {}", frame));
  }
  return fmt::format("Rank {}'s dump holds no collective: it had none that was not finished.",
                     rank);
}

}  // namespace

std::optional<HangReport> find_hang(const run::Timeline& timeline) {
  const auto is_issue = [](const auto& type) { return run::issue_state(type).has_value(); };
  if (timeline.details.empty() || std::ranges::none_of(timeline.types, is_issue))
    return std::nullopt;
  return HangFinder(timeline).find();
}

bool PendingCollective::is_waited_in() const {
  return std::ranges::any_of(
      parts, [](const IssuePart& part) { return part.state != IssueState::completed; });
}

const IssuePart& PendingCollective::last_issued() const {
  return *std::ranges::max_element(parts, {}, &IssuePart::issued);
}

int64_t PendingCollective::spread() const {
  int64_t first = INT64_MAX;
  for (const IssuePart& part : parts)
    first = std::min(first, part.issued);
  return last_issued().issued - first;
}

std::string rank_words(const std::vector<int32_t>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  return fmt::format("ranks {} and {}", fmt::join(ranks.begin(), ranks.end() - 1, ", "),
                     ranks.back());
}

std::vector<std::string> hang_sentences(const run::Timeline& timeline, const HangReport& report) {
  std::vector<std::string> lines;
  for (const PendingCollective& pending : report.pending) {
    if (!pending.kinds_differ && !pending.sizes_differ) continue;
    std::vector<std::string> calls;
    for (const IssuePart& part : pending.parts) {
      const std::string_view frame = frame_of_issue(timeline, part.span);
      calls.push_back(fmt::format("rank {} {}{}", part.rank, call_of(part),
                                  frame.empty() ? "" : fmt::format(" at {}", frame)));
    }
    constexpr size_t most = 4;
    const size_t left_out = calls.size() > most ? calls.size() - most : 0;
    calls.resize(calls.size() - left_out);
    std::string who = rank_words(report.differing);
    who[0] = upper_case(who.substr(0, 1))[0];
    const char* const what = pending.kinds_differ ? "collective" : "size";
    const bool are_all = report.differing.size() == pending.parts.size();
    lines.push_back(fmt::format("{} issued {} as {}: {}{}.", who,
                                are_all ? fmt::format("different {}s", what)
                                        : fmt::format("another {} than the others", what),
                                place_of(timeline, pending), fmt::join(calls, ", "),
                                left_out > 0 ? fmt::format(" and {} more", left_out) : ""));
  }
  if (!report.missing.empty()) {
    std::string who = rank_words(report.missing);
    who[0] = upper_case(who.substr(0, 1))[0];
    lines.push_back(who + " " + never_issued(timeline, report, report.missing) + ".");
    constexpr size_t most = 8;
    for (size_t i = 0; i < std::min(most, report.missing.size()); ++i)
      lines.push_back(last_of(timeline, report.missing[i]));
  }
  if (!lines.empty()) return lines;
  if (report.waiting > 0)
    lines.push_back(fmt::format(
        "{} not ended; every given rank issued what the others wait in.",
        report.waiting == 1 ? "1 collective or message has"
                            : fmt::format("{} collectives and messages have", report.waiting)));
  constexpr int64_t least_spread = 100'000;  // ns; hosts issue that far apart by chance
  if (report.latest && report.latest->spread() > least_spread)
    lines.push_back(
        fmt::format("Rank {} came last to {}: {} after the first, by the hosts' clocks, which are "
                    "not compared.",
                    report.latest->last_issued().rank, place_of(timeline, *report.latest),
                    time_text(report.latest->spread())));
  return lines;
}

bool knows_collectives_only(const run::Timeline& timeline) {
  bool any = false;
  for (const run::Lane& lane : timeline.lanes) {
    if (lane.stream == run::Stream::host) continue;
    if (!lane.name.starts_with("process group ")) return false;
    any = true;
  }
  return any;
}

std::set<int32_t> given_ranks(const run::Timeline& timeline) {
  std::set<int32_t> ranks = run::ranks_of(timeline);
  for (const run::Lane& lane : timeline.lanes)
    ranks.insert(lane.rank);
  return ranks;
}

std::string_view frame_of_issue(const run::Timeline& timeline, size_t span) {
  const run::Span& of = timeline.spans[span];
  const int64_t record = timeline.details[span].correlation;
  const auto [first, last] = run::detail::items_of_rank(timeline.spans, of.rank);
  for (const run::Span* other = first; other != last && record >= 0; ++other) {
    const run::SpanType& type = type_of(timeline, *other);
    const auto place = as_size(other - timeline.spans.data());
    if (type.kind == run::SpanKind::host && type.op_class != spec::OpClass::communication &&
        timeline.details[place].correlation == record)
      return type.name;
  }
  return {};
}

}  // namespace triplepoint::metrics
