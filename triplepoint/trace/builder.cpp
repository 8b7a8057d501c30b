// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/builder.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "triplepoint/base/statistics.h"
#include "triplepoint/base/text.h"

#include "triplepoint/trace/bulk.h"
#include "triplepoint/trace/kernel_kind.h"
#include "triplepoint/trace/plausible.h"

namespace triplepoint::trace {
namespace {

void keep_few(std::vector<std::string>& all, std::string sentence) {
  constexpr size_t most = 8;
  if (all.size() < most && !holds(all, sentence)) all.push_back(std::move(sentence));
}

template <class Enum>
int number_of(const std::optional<Enum>& value) {
  return value ? static_cast<int>(*value) : -1;
}

/// The begin that the epoch moves to: the earliest, but for strays a timeline cannot hold. A clock
/// that was not set gives a few events near zero; the median is among the sound ones.
int64_t epoch_of(const std::vector<run::Span>& spans, int64_t reach) {
  const auto distance = [](int64_t from, int64_t to) {
    return static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
  };
  const auto [least, most] =
      std::minmax_element(spans.begin(), spans.end(),
                          [](const run::Span& a, const run::Span& b) { return a.begin < b.begin; });
  const int64_t first = least->begin.nanoseconds();
  if (distance(first, most->begin.nanoseconds()) < static_cast<uint64_t>(reach)) return first;
  const std::vector<int64_t> begins =
      mapped(spans, [](const run::Span& span) { return span.begin.nanoseconds(); });
  const int64_t center = upper_median(begins);
  int64_t epoch = center;
  for (const int64_t begin : begins)
    if (begin < epoch && distance(begin, center) < static_cast<uint64_t>(reach)) epoch = begin;
  return epoch;
}

/// Drops what does not fit between the epoch and its reach; moves the rest to the epoch.
void move_to(run::Timeline& timeline, int64_t epoch, int64_t reach, Skipped& skipped) {
  const bool with_details = !timeline.details.empty();
  const auto reaches = [&](Instant at) {
    const int64_t ns = at.nanoseconds();
    return ns >= epoch &&
           static_cast<uint64_t>(ns) - static_cast<uint64_t>(epoch) <= static_cast<uint64_t>(reach);
  };
  size_t kept = 0;
  for (size_t i = 0; i < timeline.spans.size(); ++i) {
    run::Span& span = timeline.spans[i];
    if (span.end < span.begin || !reaches(span.begin) || !reaches(span.end)) {
      note_skipped(skipped, "an event is years away from the others, or ends before it begins");
      continue;
    }
    span.begin = Instant(span.begin.nanoseconds() - epoch);
    span.end = Instant(span.end.nanoseconds() - epoch);
    if (with_details && kept != i) timeline.details[kept] = timeline.details[i];
    if (kept != i) timeline.spans[kept] = span;
    ++kept;
  }
  timeline.spans.resize(kept);
  if (with_details) timeline.details.resize(kept);
}

}  // namespace

void note_reason(Skipped& skipped, std::string note) {
  keep_few(skipped.notes, std::move(note));
}

void note_skipped(Skipped& skipped, std::string reason) {
  ++skipped.events;
  keep_few(skipped.reasons, std::move(reason));
}

int32_t TypeIndex::intern(std::vector<run::SpanType>& types, const run::SpanType& type) {
  const std::string key = fmt::format(
      "{}/{}/{}/{}/{}/{}", type.name, static_cast<int>(type.kind), static_cast<int>(type.stream),
      static_cast<int>(type.op_class), number_of(type.collective), number_of(type.group));
  const auto [found, is_new] = index_.try_emplace(key, static_cast<int32_t>(types.size()));
  if (is_new) types.push_back(type);
  return found->second;
}

int32_t TraceBuilder::type(const run::SpanType& type) {
  return types_.intern(trace_.timeline.types, type);
}

int32_t TraceBuilder::kernel(const std::string& name) {
  const auto [known, is_new] = kernels_.try_emplace(name, -1);
  if (is_new) known->second = type(kernel_type(name));
  return known->second;
}

int32_t TraceBuilder::lane(const run::Lane& lane) {
  const auto [found, is_new] =
      lanes_.try_emplace(std::tuple(lane.rank, lane.stream, lane.number, lane.name),
                         static_cast<int32_t>(trace_.timeline.lanes.size()));
  if (is_new) trace_.timeline.lanes.push_back(lane);
  return found->second;
}

int32_t TraceBuilder::communicator(const run::Communicator& communicator) {
  std::vector<run::Communicator>& all = trace_.timeline.communicators;
  const auto found = std::ranges::find(all, communicator);
  if (found != all.end()) return static_cast<int32_t>(found - all.begin());
  all.push_back(communicator);
  return static_cast<int32_t>(all.size()) - 1;
}

void TraceBuilder::add(const run::Span& span, const run::SpanDetail& detail) {
  trace_.timeline.spans.push_back(span);
  trace_.timeline.details.push_back(detail);
}

void TraceBuilder::skip(std::string reason) {
  note_skipped(trace_.skipped, std::move(reason));
}

void TraceBuilder::truncated(std::string reason) {
  trace_.skipped.truncated = true;
  note_reason(trace_.skipped, std::move(reason));
}

Trace TraceBuilder::finish(std::optional<int64_t> unix_ns_of_zero) && {
  settle(trace_, unix_ns_of_zero);
  return std::move(trace_);
}

void settle(Trace& trace, std::optional<int64_t> unix_ns_of_zero, bool one_at_a_time) {
  constexpr int64_t reach = int64_t{30} * 365 * 86400 * 1'000'000'000;  // what a run file holds
  run::Timeline& timeline = trace.timeline;
  leave_out_strays(timeline, trace.skipped);
  if (!timeline.spans.empty()) {
    const int64_t epoch = epoch_of(timeline.spans, reach);
    move_to(timeline, epoch, reach, trace.skipped);
    trace.epoch_in_file_ns = epoch;
    if (unix_ns_of_zero) trace.epoch_unix_ns = *unix_ns_of_zero + epoch;
  }
  for (const run::Span& span : timeline.spans)
    timeline.num_ranks = std::max(timeline.num_ranks, span.rank + 1);
  sort_spans(timeline);
  clip_overflowing(timeline, one_at_a_time, trace.skipped);
}

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

void set_rank(Trace& trace, int32_t rank) {
  for (run::Span& span : trace.timeline.spans)
    span.rank = rank;
  for (run::Lane& lane : trace.timeline.lanes)
    lane.rank = rank;
  if (trace.timeline.lanes.empty())
    trace.timeline.lanes.push_back({rank, run::Stream::host, 0, "nothing recorded"});
  trace.timeline.num_ranks = rank + 1;
  trace.rank = rank;
}

std::string_view file_name(std::string_view name) {
  return name.substr(name.find_last_of('/') + 1);
}

/// A flight recorder's reader has looked at the name with what the groups allow.
std::optional<int32_t> rank_named(const NamedTrace& one) {
  return one.trace.format == "flight_recorder" ? std::nullopt : rank_in_name(one.name);
}

/// Takes the ranks of those that do not know theirs from the names, of none if two say the same;
/// two that say "rank" are a mistake of who gave them.
Result<std::vector<NamedTrace*>> ranks_by_names(std::vector<NamedTrace>& all,
                                                std::map<int32_t, const std::string*>& owner) {
  std::vector<NamedTrace*> unknown;
  std::map<int32_t, const std::string*> named = owner;
  bool doubted = false;
  for (NamedTrace& one : all) {
    if (one.trace.rank || ranks_of(one.trace.timeline).size() > 1) continue;
    unknown.push_back(&one);
    const auto rank = rank_named(one);
    if (!rank) continue;
    const auto [found, is_new] = named.try_emplace(*rank, &one.name);
    if (is_new) continue;
    if (lower_case(file_name(one.name)).find("rank") != std::string::npos)
      return error(
          "{} and {} are both of rank {} by their names (a timeline shows a rank once); leave one "
          "out, or say where the rank stands, as in --ranks 'node*-{{rank}}.json'",
          *found->second, one.name, *rank);
    doubted = true;
  }
  if (doubted) return unknown;
  std::vector<NamedTrace*> nameless;
  for (NamedTrace* const one : unknown) {
    const auto rank = rank_named(*one);
    if (!rank) nameless.push_back(one);
    if (!rank) continue;
    owner.emplace(*rank, &one->name);
    set_rank(one->trace, *rank);
  }
  return nameless;
}

/// Gives each trace of one rank that does not know which the one its name or its place says.
Result<bool> settle_ranks(std::vector<NamedTrace>& all) {
  std::map<int32_t, const std::string*> owner;
  const auto take = [&](int32_t rank, const NamedTrace& by) -> Result<bool> {
    const auto [found, is_new] = owner.try_emplace(rank, &by.name);
    if (!is_new)
      return error(
          "{} and {} are both of rank {} (a timeline shows a rank once); leave one out, give the "
          "files of one capture only, or say where the rank stands in the names, as in --ranks "
          "'trace_{{rank}}.json'",
          *found->second, by.name, rank);
    return true;
  };
  for (NamedTrace& named : all) {
    const std::set<int32_t> ranks = ranks_of(named.trace.timeline);
    if (ranks.size() > 1) {
      for (const int32_t rank : ranks)
        TPT_TRY(take(rank, named));
    } else if (named.trace.rank) {
      TPT_TRY(take(*named.trace.rank, named));
      set_rank(named.trace, *named.trace.rank);
    }
  }
  const std::vector<NamedTrace*> nameless = TPT_TRY(ranks_by_names(all, owner));
  int32_t next = 0;
  for (NamedTrace* const named : nameless) {
    while (owner.contains(next))
      ++next;
    TPT_TRY(take(next, *named));
    set_rank(named->trace, next);
  }
  if (!nameless.empty() && all.size() > 1)
    note_reason(nameless.front()->trace.skipped,
                fmt::format("{} of {} files tell no rank for certain: theirs are the next free "
                            "numbers in the order of the names; --ranks PATTERN says where they "
                            "stand ('trace_{{rank}}.json')",
                            nameless.size(), all.size()));
  return true;
}

/// What each trace's instants move by. Without a Unix time, files of one machine still share its
/// clock. Traces without spans move nothing.
std::vector<int64_t> shifts_of(const std::vector<NamedTrace>& all, Trace& merged) {
  constexpr int64_t day = int64_t{86400} * 1'000'000'000;
  std::vector<size_t> used;
  for (size_t i = 0; i < all.size(); ++i)
    if (!all[i].trace.timeline.spans.empty()) used.push_back(i);
  std::vector<int64_t> shifts(all.size(), 0);
  if (used.empty()) return shifts;
  const auto has_unix = [&](size_t i) { return all[i].trace.epoch_unix_ns.has_value(); };
  const bool unix_time = std::ranges::all_of(used, has_unix);
  const bool none = std::ranges::none_of(used, has_unix);
  if (!unix_time && !none) {
    note_reason(merged.skipped,
                "not all files have a start time, so each begins at its own first event");
    return shifts;
  }
  std::vector<int64_t> epochs;
  for (const size_t i : used)
    epochs.push_back(unix_time ? *all[i].trace.epoch_unix_ns : all[i].trace.epoch_in_file_ns);
  const int64_t middle = upper_median(epochs);
  const auto is_far = [&](int64_t epoch) {
    return std::abs(as_real(epoch) - as_real(middle)) > as_real(day);
  };
  int64_t first = middle;
  for (const int64_t epoch : epochs)
    if (!is_far(epoch)) first = std::min(first, epoch);
  for (size_t n = 0; n < used.size(); ++n) {
    if (!is_far(epochs[n]))
      shifts[used[n]] = epochs[n] - first;
    else
      note_reason(merged.skipped,
                  fmt::format("{}: its clock is days away from the others': it begins with them",
                              all[used[n]].name));
  }
  if (unix_time) merged.epoch_unix_ns = first;
  merged.epoch_in_file_ns = first;
  return shifts;
}

/// Indices of one timeline's tables in the merged one.
struct Places {
  std::vector<int32_t> types, communicators;
  int32_t lanes = 0;
};

class Merger {
 public:
  explicit Merger(Trace& into) : into_(into.timeline), operators_(into.operators) {}

  void add(Trace&& trace, int64_t shift) {
    run::Timeline& from = trace.timeline;
    const Places places = places_of(from);
    for (OperatorCall& call : trace.operators) {
      call.lane += places.lanes;
      call.begin += shift;
      operators_.push_back(std::move(call));
    }
    for (const run::Span& span : from.spans) {
      run::Span& moved = into_.spans.emplace_back(span);
      moved.begin = Instant(span.begin.nanoseconds() + shift);
      moved.end = Instant(span.end.nanoseconds() + shift);
      moved.type = places.types[as_size(span.type)];
    }
    from.spans = {};
    for (const run::SpanDetail& detail : from.details) {
      run::SpanDetail& moved = into_.details.emplace_back(detail);
      if (detail.lane >= 0) moved.lane += places.lanes;
      if (detail.communicator >= 0)
        moved.communicator = places.communicators[as_size(detail.communicator)];
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
  std::vector<OperatorCall>& operators_;
  TypeIndex types_;
  std::map<std::tuple<std::string, std::vector<int32_t>, int32_t, run::MessageEnd, int32_t>,
           int32_t>
      communicators_;
};

/// Only what all traces say alike.
std::map<std::string, std::string> common_facts(const std::vector<NamedTrace>& all) {
  std::map<std::string, std::string> facts = all[0].trace.facts;
  std::erase_if(facts, [&](const auto& fact) {
    return std::ranges::any_of(all, [&](const NamedTrace& named) {
      const auto found = named.trace.facts.find(fact.first);
      return found == named.trace.facts.end() || found->second != fact.second;
    });
  });
  return facts;
}

/// The same of numbers, and how many hosts there are.
run::ProducerNumbers common_numbers(const std::vector<NamedTrace>& all) {
  run::ProducerNumbers numbers = all[0].trace.numbers;
  std::set<std::string> hosts;
  for (const NamedTrace& named : all) {
    run::visit_numbers(numbers, named.trace.numbers,
                       [](const char*, auto& common, const auto& own) {
                         if (common != own) common.reset();
                       });
    if (const auto host = named.trace.facts.find("hostname"); host != named.trace.facts.end())
      hosts.insert(host->second);
  }
  if (hosts.size() > 1) numbers.num_hosts = static_cast<int64_t>(hosts.size());
  return numbers;
}

void add_skipped(Skipped& all, const NamedTrace& named) {
  const int64_t events = all.events + named.trace.skipped.events;
  all.truncated = all.truncated || named.trace.skipped.truncated;
  for (const std::string& reason : named.trace.skipped.reasons)
    note_skipped(all, fmt::format("{}: {}", named.name, reason));
  all.events = events;  // a reason may be that of many
  for (const std::string& note : named.trace.skipped.notes)
    note_reason(all, fmt::format("{}: {}", named.name, note));
}

}  // namespace

std::optional<int32_t> rank_in_name(std::string_view name) {
  name = file_name(name);
  // PyTorch's handler writes host_process.time.pt.trace.json; a host's number is no rank.
  const size_t ending = name.find(".pt.trace.json");
  const size_t time = ending == std::string_view::npos ? ending : name.rfind('.', ending - 1);
  const size_t process = time == std::string_view::npos ? time : name.rfind('_', time);
  const bool by_host =
      process != std::string_view::npos && process + 1 < time &&
      whole_number(name.substr(process + 1, time - process - 1)) &&
      whole_number(name.substr(time + 1, ending - time - 1)).value_or(0) > 1'000'000'000;
  const std::string small = lower_case(name);
  for (const std::string_view word : {"ranks", "rank", "worker", "tp"}) {
    if (by_host && word == "worker") break;
    for (size_t at = small.find(word); at != std::string::npos; at = small.find(word, at + 1)) {
      std::string_view rest = std::string_view(small).substr(at + word.size());
      if (word == "tp" && (!rest.starts_with('-') || (at > 0 && is_letter(small[at - 1]))))
        continue;
      if (!rest.empty() && (rest[0] == '_' || rest[0] == '-' || rest[0] == '.' || rest[0] == '='))
        rest.remove_prefix(1);
      if (const auto number = number_at(rest)) return number;
    }
  }
  return std::nullopt;
}

std::optional<int32_t> rank_by_pattern(std::string_view pattern, std::string_view name) {
  constexpr std::string_view mark = "{rank}";
  if (!contains(pattern, '/')) name = file_name(name);
  // Fits what is left of both; `*` and the number take as little as they may.
  const std::function<bool(std::string_view, std::string_view, std::optional<int32_t>&)> fits =
      [&](std::string_view want, std::string_view text, std::optional<int32_t>& rank) {
        if (want.empty()) return text.empty();
        if (want.starts_with('*')) {
          for (size_t n = 0; n <= text.size(); ++n)
            if (fits(want.substr(1), text.substr(n), rank)) return true;
          return false;
        }
        if (want.starts_with(mark)) {
          size_t n = 0;
          while (n < text.size() && is_digit(text[n]))
            ++n;
          const auto number = n == 0 ? std::nullopt : number_at(text);
          if (!number || !fits(want.substr(mark.size()), text.substr(n), rank)) return false;
          return rank = number, true;
        }
        return !text.empty() && want[0] == text[0] && fits(want.substr(1), text.substr(1), rank);
      };
  std::optional<int32_t> rank;
  return fits(pattern, name, rank) ? rank : std::nullopt;
}

Result<Trace> merge(std::vector<NamedTrace> all) {
  TPT_TRY(settle_ranks(all));
  if (all.size() == 1) return std::move(all[0].trace);
  std::ranges::stable_sort(all, [](const NamedTrace& a, const NamedTrace& b) {
    return a.trace.timeline.num_ranks < b.trace.timeline.num_ranks;
  });
  Trace merged;
  merged.format = all[0].trace.format;
  merged.facts = common_facts(all);
  merged.numbers = common_numbers(all);
  const std::vector<int64_t> shifts = shifts_of(all, merged);
  size_t spans = 0;
  for (const NamedTrace& named : all)
    spans += named.trace.timeline.spans.size();
  reserve_large(merged.timeline.spans, spans);
  reserve_large(merged.timeline.details, spans);
  Merger merger(merged);
  for (size_t i = 0; i < all.size(); ++i) {
    add_skipped(merged.skipped, all[i]);
    merger.add(std::move(all[i].trace), shifts[i]);
  }
  sort_spans(merged.timeline);
  return merged;
}

}  // namespace triplepoint::trace
