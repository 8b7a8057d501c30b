// SPDX-License-Identifier: Apache-2.0
// Which ranks and spans of a timeline a page shows.
#include "triplepoint/report/pages/timeline_rows.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

namespace triplepoint::report {

using run::Span;
using run::SpanKind;
using run::Timeline;

namespace {

int64_t length_of(const Span& span) {
  return span.end.nanoseconds() - span.begin.nanoseconds();
}

std::string short_text(int64_t ns) {
  return ns < 1000 ? fmt::format("{} ns", ns) : significant(static_cast<double>(ns) / 1e3) + " us";
}

/// Whether two ranks have equal work at equal times, in a timeline without details.
class SameWork {
 public:
  explicit SameWork(const Timeline& timeline) : timeline_(timeline) {}

  bool operator()(int32_t a, int32_t b) const {
    return equal(run::detail::items_of_rank(timeline_.spans, a),
                 run::detail::items_of_rank(timeline_.spans, b)) &&
           equal(run::detail::items_of_rank(timeline_.instances, a),
                 run::detail::items_of_rank(timeline_.instances, b));
  }
  /// Equal for equal ranks; cheap.
  std::tuple<std::ptrdiff_t, std::ptrdiff_t, int64_t, int32_t> key(int32_t rank) const {
    const auto spans = run::detail::items_of_rank(timeline_.spans, rank);
    const auto instances = run::detail::items_of_rank(timeline_.instances, rank);
    int64_t sum = 0;
    for (auto at = instances.first; at != instances.second; ++at)
      sum += at->begin.nanoseconds() % 1'000'000'007;
    for (auto at = spans.first; at != spans.second; ++at)
      sum += at->end.nanoseconds() % 1'000'000'007;
    const int32_t first = instances.first == instances.second ? -1 : instances.first->pattern;
    return {spans.second - spans.first, instances.second - instances.first, sum, first};
  }

 private:
  template <class Item>
  static bool equal(std::pair<const Item*, const Item*> a, std::pair<const Item*, const Item*> b) {
    return std::equal(a.first, a.second, b.first, b.second, [](Item x, const Item& y) {
      x.rank = y.rank;
      return x == y;
    });
  }
  const Timeline& timeline_;
};

}  // namespace

ChosenSpans choose_spans(const Timeline& timeline, std::size_t most) {
  const std::vector<Span>& spans = timeline.spans;
  ChosenSpans chosen{std::vector<bool>(spans.size(), true), ""};
  if (spans.size() <= most) return chosen;
  std::vector<int64_t> lengths;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const SpanKind kind = timeline.types[static_cast<std::size_t>(spans[i].type)].kind;
    chosen.is_sent[i] = kind != SpanKind::host;
    if (chosen.is_sent[i]) lengths.push_back(length_of(spans[i]));
  }
  if (lengths.size() < spans.size())
    chosen.note = fmt::format("{} host spans are left out",
                              whole(static_cast<int64_t>(spans.size() - lengths.size())));
  if (lengths.size() > most) {
    const auto cut = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() - most);
    std::nth_element(lengths.begin(), cut, lengths.end());
    const int64_t shortest = *cut + 1;  // at most `most` are longer than *cut
    int64_t dropped = 0;
    for (std::size_t i = 0; i < spans.size(); ++i)
      if (chosen.is_sent[i] && length_of(spans[i]) < shortest) {
        chosen.is_sent[i] = false;
        ++dropped;
      }
    chosen.note +=
        fmt::format("{}{} spans shorter than {} are left out", chosen.note.empty() ? "" : ", ",
                    whole(dropped), short_text(shortest));
  }
  return chosen;
}

std::vector<TimelineRow> rows_of(const Timeline& timeline) {
  const SameWork same(timeline);
  std::vector<TimelineRow> rows;
  std::map<decltype(same.key(0)), std::vector<std::size_t>> candidates;
  for (int32_t rank = 0; rank < timeline.num_ranks; ++rank) {
    const auto key = same.key(rank);
    if (std::get<0>(key) == 0 && std::get<1>(key) == 0) continue;
    bool joined = false;
    if (timeline.details.empty())
      for (const std::size_t row : candidates[key])
        if (!joined && same(rows[row].rank, rank)) {
          rows[row].like.push_back(rank);
          joined = true;
        }
    if (joined) continue;
    candidates[key].push_back(rows.size());
    rows.push_back({rank, {}});
  }
  return rows;
}

std::string label_of(const TimelineRow& row) {
  if (row.like.empty()) return fmt::format("rank {}", row.rank);
  const bool in_line = row.like.back() - row.rank == static_cast<int32_t>(row.like.size());
  if (in_line) return fmt::format("ranks {}-{}", row.rank, row.like.back());
  return fmt::format("rank {} and {} like it", row.rank, row.like.size());
}

int32_t stage_of(const Timeline& timeline, int32_t rank) {
  const auto instances = run::detail::items_of_rank(timeline.instances, rank);
  for (auto at = instances.first; at != instances.second; ++at)
    if (at->stage >= 0) return at->stage;
  const auto spans = run::detail::items_of_rank(timeline.spans, rank);
  for (auto at = spans.first; at != spans.second; ++at)
    if (at->stage >= 0) return at->stage;
  return -1;
}

int32_t node_of(const run::Run& run, const TimelineRow& row) {
  std::optional<int32_t> node;
  for (const run::Device& device : run.devices) {
    if (!device.rank) continue;
    if (*device.rank != row.rank &&
        !std::binary_search(row.like.begin(), row.like.end(), *device.rank))
      continue;
    if (node && *node != device.node) return -1;
    node = device.node;
  }
  return node.value_or(-1);
}

}  // namespace triplepoint::report
