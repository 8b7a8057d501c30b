// SPDX-License-Identifier: Apache-2.0
// Which communication spans of different ranks are one collective (rules: collectives.h).
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
// Cost: O(n log n) in the spans of communication. Times are integer nanoseconds.
#include "triplepoint/metrics/trace/collectives.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "triplepoint/base/expect.h"

#include "triplepoint/metrics/trace/kernel_rules.h"
#include "triplepoint/metrics/trace/trace_lanes.h"

namespace triplepoint::metrics {

namespace {

/// What the spans of one collective share: communicator, label, sequence; or of a simulated one
/// type, end, arrival of the last peer.
using Key = std::tuple<int64_t, std::string_view, int64_t, int64_t>;

class Matcher {
 public:
  explicit Matcher(const run::Timeline& timeline) : timeline_(timeline) {
    TPT_EXPECT(timeline.instances.empty());
  }

  CollectiveMatch match() {
    for (size_t i = 0; i < timeline_.spans.size(); ++i)
      if (type_of(i).kind == run::SpanKind::communication) sort_in(i);
    for (auto& [stream, ranks] : counted_)
      match_by_count(stream, ranks);
    for (auto& [key, spans] : by_key_)
      result_.collectives.push_back(collective_of(key, spans));
    std::stable_sort(
        result_.collectives.begin(), result_.collectives.end(),
        [](const Collective& a, const Collective& b) { return a.first_begin() < b.first_begin(); });
    for (const Collective& collective : result_.collectives)
      result_.unmatched += !collective.across_ranks();
    return std::move(result_);
  }

 private:
  using Stream = std::pair<int64_t, std::string_view>;  // communicator, label

  const run::SpanType& type_of(size_t i) const {
    return metrics::type_of(timeline_, timeline_.spans[i]);
  }

  void sort_in(size_t i) {
    const run::Span& span = timeline_.spans[i];
    const auto index = static_cast<int32_t>(i);
    const std::string_view label = label_of(type_of(i));
    const run::SpanDetail* detail = detail_of(timeline_, i);
    // The type goes into the place of the communicator, below zero, so that it meets no real one.
    if (detail == nullptr) {
      const int64_t arrival = span.begin.nanoseconds() + run::whole_nanoseconds(span.wait);
      by_key_[{-1 - span.type, label, span.end.nanoseconds(), arrival}].push_back(index);
    } else if (detail->communicator >= 0 && detail->sequence >= 0) {
      by_key_[{detail->communicator, label, detail->sequence, 0}].push_back(index);
    } else {
      counted_[{detail->communicator, label}][span.rank].push_back(index);
    }
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

  Collective collective_of(const Key& key, const std::vector<int32_t>& spans) const {
    const auto first = static_cast<size_t>(spans.front());
    const run::SpanDetail* detail = detail_of(timeline_, first);
    Collective result{.label = std::get<1>(key), .name = type_of(first).name};
    if (detail != nullptr) {
      result.communicator = detail->communicator;
      result.sequence = std::get<2>(key);
    } else {
      result.known_arrival = std::get<3>(key);
    }
    for (int32_t index : spans) {
      const run::Span& span = timeline_.spans[static_cast<size_t>(index)];
      result.parts.push_back({span.rank, index, span.begin.nanoseconds(), span.end.nanoseconds()});
      // Ranks may state different sizes (a root's buffer, an uneven gather); the largest is the
      // whole array.
      result.size = std::max(result.size, span.bytes);
    }
    std::sort(result.parts.begin(), result.parts.end(),
              [](const auto& a, const auto& b) { return a.rank < b.rank; });
    if (detail != nullptr) fill_in(result, *detail);
    return result;
  }

  void fill_in(Collective& result, const run::SpanDetail& detail) const {
    // As in nccl-tests: elements of a rank's smaller buffer.
    result.count = result.label == "reduce_scatter" ? detail.out_elements : detail.in_elements;
    if (detail.communicator >= 0) {
      const auto& group = timeline_.communicators[static_cast<size_t>(detail.communicator)];
      result.group_size = group.size > 0 ? group.size : static_cast<int32_t>(group.ranks.size());
    }
    if (result.group_size == 0 && result.across_ranks())
      result.group_size = static_cast<int32_t>(result.parts.size());
  }

  const run::Timeline& timeline_;
  std::map<Key, std::vector<int32_t>> by_key_;
  std::map<Stream, std::map<int32_t, std::vector<int32_t>>> counted_;
  CollectiveMatch result_;
};

template <class Less>
const CollectivePart& extreme_part(const Collective& collective, Less less) {
  return *std::min_element(collective.parts.begin(), collective.parts.end(), less);
}

using RowKey = std::tuple<std::string_view, int32_t, Bytes, int64_t>;

void add(CollectiveRow& row, const Collective& collective) {
  ++row.occurrences;
  for (const CollectivePart& part : collective.parts) {
    row.total += part.duration();
    row.shortest = row.kernels == 0 ? part.duration() : std::min(row.shortest, part.duration());
    row.longest = std::max(row.longest, part.duration());
    ++row.kernels;
    if (collective.knows_waits()) row.wait = row.wait.value_or(0) + collective.wait_of(part);
  }
  if (const auto transfer = collective.transfer())
    row.transfer = row.transfer.value_or(0) + *transfer;
}

/// `transfers`: how many occurrences the row's transfer is of.
void finish(CollectiveRow& row, int64_t transfers) {
  const double ns = transfers > 0
                        ? static_cast<double>(*row.transfer) / static_cast<double>(transfers)
                        : static_cast<double>(row.shortest);
  if (row.size <= Bytes() || ns <= 0) return;
  row.algbw_gb_s = row.size / unit::B / ns;  // B/ns is GB/s
  if (const auto factor = bus_factor(row.label, row.group_size))
    row.busbw_gb_s = *row.algbw_gb_s * *factor;
}

}  // namespace

int64_t Collective::first_begin() const {
  return extreme_part(*this, [](auto& a, auto& b) { return a.begin < b.begin; }).begin;
}
int64_t Collective::last_begin() const {
  return extreme_part(*this, [](auto& a, auto& b) { return a.begin > b.begin; }).begin;
}
int64_t Collective::first_end() const {
  return extreme_part(*this, [](auto& a, auto& b) { return a.end < b.end; }).end;
}
int64_t Collective::last_end() const {
  return extreme_part(*this, [](auto& a, auto& b) { return a.end > b.end; }).end;
}
int32_t Collective::last_starter() const {
  return extreme_part(*this, [](auto& a, auto& b) { return a.begin > b.begin; }).rank;
}

std::optional<int64_t> Collective::transfer() const {
  if (!knows_waits()) return std::nullopt;
  return last_end() - arrival();
}

CollectiveMatch match_collectives(const run::Timeline& timeline) {
  return Matcher(timeline).match();
}

std::optional<double> bus_factor(std::string_view label, int32_t ranks) {
  if (ranks < 1) return std::nullopt;
  const double others = static_cast<double>(ranks - 1) / ranks;
  if (label == "all_reduce") return 2 * others;
  if (label == "all_gather" || label == "reduce_scatter" || label == "all_to_all") return others;
  if (label == "broadcast" || label == "send_recv") return 1.0;
  return std::nullopt;
}

std::vector<CollectiveRow> tabulate(const std::vector<Collective>& collectives) {
  std::map<RowKey, std::pair<CollectiveRow, int64_t>> rows;
  for (const Collective& c : collectives) {
    auto& [row, transfers] = rows[{c.label, c.group_size, c.size, c.count}];
    row.label = c.label;
    row.group_size = c.group_size;
    row.size = c.size;
    row.count = c.count;
    add(row, c);
    transfers += c.knows_waits();
  }
  std::vector<CollectiveRow> table;
  for (auto& [key, entry] : rows) {
    finish(entry.first, entry.second);
    table.push_back(entry.first);
  }
  return table;
}

std::vector<MessageSizes> message_sizes(const std::vector<Collective>& collectives) {
  std::map<std::pair<std::string_view, double>, MessageSizes> buckets;
  for (const Collective& c : collectives) {
    if (c.size <= Bytes()) continue;
    double upper = 1;
    while (upper * unit::B < c.size)
      upper *= 2;
    MessageSizes& bucket = buckets[{c.label, upper}];
    bucket.label = c.label;
    bucket.upper = upper * unit::B;
    ++bucket.occurrences;
    for (const CollectivePart& part : c.parts)
      bucket.total += part.duration();
    bucket.transfer += c.transfer().value_or(0);
  }
  std::vector<MessageSizes> list;
  list.reserve(buckets.size());
  for (const auto& [key, bucket] : buckets)
    list.push_back(bucket);
  return list;
}

}  // namespace triplepoint::metrics
