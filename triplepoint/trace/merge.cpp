// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/merge.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/trace/builder.h"
#include "triplepoint/trace/large_vector.h"
#include "triplepoint/trace/order.h"

namespace triplepoint::trace {

namespace {

std::optional<int32_t> number_at(std::string_view text) {
  int64_t number = -1;
  for (const char c : text) {
    if (!is_digit(c)) break;
    number = std::max<int64_t>(number, 0) * 10 + (c - '0');
    if (number > 1 << 20) return std::nullopt;
  }
  return number < 0 ? std::nullopt : std::optional(static_cast<int32_t>(number));
}

/// The ranks that occur in a timeline.
std::set<int32_t> ranks_of(const Trace& trace) {
  std::set<int32_t> ranks;
  int32_t last = -1;
  for (const run::Span& span : trace.timeline.spans)
    if (span.rank != last) ranks.insert(last = span.rank);
  return ranks;
}

void set_rank(Trace& trace, int32_t rank) {
  for (run::Span& span : trace.timeline.spans)
    span.rank = rank;
  for (run::Lane& lane : trace.timeline.lanes)
    lane.rank = rank;
  trace.timeline.num_ranks = rank + 1;
  trace.rank = rank;
}

/// Gives each trace of one rank that does not know which the one its name or its place says.
Result<bool> settle_ranks(std::vector<NamedTrace>& all) {
  std::map<int32_t, const std::string*> owner;
  const auto take = [&](int32_t rank, const NamedTrace& by) -> Result<bool> {
    const auto [found, is_new] = owner.try_emplace(rank, &by.name);
    if (!is_new)
      return error(
          fmt::format("{} and {} are both of rank {} (a timeline shows a rank once); "
                      "leave one out, or give the files of one capture only",
                      *found->second, by.name, rank));
    return true;
  };
  std::vector<NamedTrace*> nameless;
  for (NamedTrace& named : all) {
    if (!named.trace.rank) named.trace.rank = rank_in_name(named.name);
    const std::set<int32_t> ranks = ranks_of(named.trace);
    if (ranks.size() > 1) {
      for (const int32_t rank : ranks)
        TPT_TRY(take(rank, named));
    } else if (named.trace.rank) {
      TPT_TRY(take(*named.trace.rank, named));
      set_rank(named.trace, *named.trace.rank);
    } else {
      nameless.push_back(&named);
    }
  }
  int32_t next = 0;
  for (NamedTrace* const named : nameless) {
    while (owner.contains(next))
      ++next;
    TPT_TRY(take(next, *named));
    set_rank(named->trace, next);
  }
  return true;
}

/// What each trace's instants move by. Without a Unix time, files of one machine still share its
/// clock.
std::vector<int64_t> shifts_of(const std::vector<NamedTrace>& all, Trace& merged) {
  const auto has_unix = [](const NamedTrace& n) { return n.trace.epoch_unix_ns.has_value(); };
  const bool unix_time = std::all_of(all.begin(), all.end(), has_unix);
  const bool none = std::none_of(all.begin(), all.end(), has_unix);
  std::vector<int64_t> epochs;
  epochs.reserve(all.size());
  for (const NamedTrace& named : all)
    epochs.push_back(unix_time ? *named.trace.epoch_unix_ns : named.trace.epoch_in_file_ns);
  if (!unix_time && !none) {
    note_reason(merged.skipped,
                "not all files have a start time, so each begins at its own first event");
    return std::vector<int64_t>(all.size(), 0);
  }
  const int64_t first = *std::min_element(epochs.begin(), epochs.end());
  if (unix_time) merged.epoch_unix_ns = first;
  merged.epoch_in_file_ns = first;
  for (int64_t& epoch : epochs)
    epoch -= first;
  return epochs;
}

/// Indices of one timeline's tables in the merged one.
struct Places {
  std::vector<int32_t> types, communicators;
  int32_t lanes = 0;
};

class Merger {
 public:
  explicit Merger(Trace& into) : into_(into.timeline) {}

  void add(run::Timeline&& from, int64_t shift) {
    const Places places = places_of(from);
    for (const run::Span& span : from.spans) {
      run::Span& moved = into_.spans.emplace_back(span);
      moved.begin = Instant(span.begin.nanoseconds() + shift);
      moved.end = Instant(span.end.nanoseconds() + shift);
      moved.type = places.types[static_cast<size_t>(span.type)];
    }
    from.spans = {};
    for (const run::SpanDetail& detail : from.details) {
      run::SpanDetail& moved = into_.details.emplace_back(detail);
      if (detail.lane >= 0) moved.lane += places.lanes;
      if (detail.communicator >= 0)
        moved.communicator = places.communicators[static_cast<size_t>(detail.communicator)];
    }
    into_.details.resize(into_.spans.size());
    into_.num_ranks = std::max(into_.num_ranks, from.num_ranks);
    into_.names = from.names;
  }

 private:
  Places places_of(const run::Timeline& from) {
    Places places;
    for (const run::SpanType& type : from.types)
      places.types.push_back(types_.intern(into_.types, type));
    for (const run::Communicator& communicator : from.communicators)
      places.communicators.push_back(intern(communicator));
    places.lanes = static_cast<int32_t>(into_.lanes.size());
    into_.lanes.insert(into_.lanes.end(), from.lanes.begin(), from.lanes.end());
    return places;
  }

  int32_t intern(const run::Communicator& communicator) {
    const auto [found, is_new] = communicators_.try_emplace(
        std::tuple(communicator.name, communicator.ranks, communicator.size, communicator.end,
                   communicator.peer),
        static_cast<int32_t>(into_.communicators.size()));
    if (is_new) into_.communicators.push_back(communicator);
    return found->second;
  }

  run::Timeline& into_;
  TypeIndex types_;
  std::map<std::tuple<std::string, std::vector<int32_t>, int32_t, run::MessageEnd, int32_t>,
           int32_t>
      communicators_;
};

/// Only what all traces say alike.
std::map<std::string, std::string> common_facts(const std::vector<NamedTrace>& all) {
  std::map<std::string, std::string> facts = all[0].trace.facts;
  std::erase_if(facts, [&](const auto& fact) {
    return std::any_of(all.begin(), all.end(), [&](const NamedTrace& named) {
      const auto found = named.trace.facts.find(fact.first);
      return found == named.trace.facts.end() || found->second != fact.second;
    });
  });
  return facts;
}

void add_skipped(Skipped& all, const NamedTrace& named) {
  all.events += named.trace.skipped.events;
  all.truncated = all.truncated || named.trace.skipped.truncated;
  for (const std::string& reason : named.trace.skipped.reasons)
    note_reason(all, fmt::format("{}: {}", named.name, reason));
}

}  // namespace

std::optional<int32_t> rank_in_name(std::string_view name) {
  const size_t slash = name.find_last_of('/');
  if (slash != std::string_view::npos) name.remove_prefix(slash + 1);
  for (const std::string_view word : {"ranks", "rank", "worker"}) {
    for (size_t at = name.find(word); at != std::string_view::npos; at = name.find(word, at + 1)) {
      std::string_view rest = name.substr(at + word.size());
      if (!rest.empty() && (rest[0] == '_' || rest[0] == '-' || rest[0] == '.' || rest[0] == '='))
        rest.remove_prefix(1);
      if (const auto number = number_at(rest)) return number;
    }
  }
  return std::nullopt;
}

Result<Trace> merge(std::vector<NamedTrace> all) {
  TPT_TRY(settle_ranks(all));
  if (all.size() == 1) return std::move(all[0].trace);
  std::stable_sort(all.begin(), all.end(), [](const NamedTrace& a, const NamedTrace& b) {
    return a.trace.timeline.num_ranks < b.trace.timeline.num_ranks;
  });
  Trace merged;
  merged.format = all[0].trace.format;
  merged.facts = common_facts(all);
  const std::vector<int64_t> shifts = shifts_of(all, merged);
  size_t spans = 0;
  for (const NamedTrace& named : all)
    spans += named.trace.timeline.spans.size();
  reserve_large(merged.timeline.spans, spans);
  reserve_large(merged.timeline.details, spans);
  Merger merger(merged);
  for (size_t i = 0; i < all.size(); ++i) {
    add_skipped(merged.skipped, all[i]);
    merger.add(std::move(all[i].trace.timeline), shifts[i]);
  }
  sort_spans(merged.timeline);
  return merged;
}

}  // namespace triplepoint::trace
