// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/names.h"

#include "triplepoint/metrics/trace/trace_lanes.h"
#include "triplepoint/report/pages/run_page.h"

namespace triplepoint::report {
namespace {

/// Which single spans a page gets: all up to `most`; beyond, host spans go first, then the
/// shortest.
struct ChosenSpans {
  std::vector<bool> is_sent;  // by index into Timeline::spans
  std::string note;           // what is left out; empty: nothing
};

/// One row of the viewer: a rank, and others that do the same at the same time (never in a timeline
/// with details: each span of a measured one is its own).
struct TimelineRow {
  int32_t rank = 0;
  std::vector<int32_t> like;  // ascending
};

using run::Span;
using run::SpanKind;
using run::Timeline;

std::string short_text(int64_t ns) {
  return ns < 1000 ? fmt::format("{} ns", ns) : significant(as_real(ns) / 1e3) + " us";
}

ChosenSpans choose_spans(const Timeline& timeline, std::size_t most) {
  const std::vector<Span>& spans = timeline.spans;
  ChosenSpans chosen{std::vector<bool>(spans.size(), true), ""};
  if (spans.size() <= most) return chosen;
  std::vector<int64_t> lengths;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const SpanKind kind = timeline.types[as_size(spans[i].type)].kind;
    chosen.is_sent[i] = kind != SpanKind::host;
    if (chosen.is_sent[i]) lengths.push_back(metrics::nanoseconds_of(spans[i]));
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
      if (chosen.is_sent[i] && metrics::nanoseconds_of(spans[i]) < shortest) {
        chosen.is_sent[i] = false;
        ++dropped;
      }
    chosen.note +=
        fmt::format("{}{} spans shorter than {} are left out", chosen.note.empty() ? "" : ", ",
                    whole(dropped), short_text(shortest));
  }
  return chosen;
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

/// "rank 3", "ranks 8-15".
std::string label_of(const TimelineRow& row) {
  if (row.like.empty()) return fmt::format("rank {}", row.rank);
  const bool in_line = row.like.back() - row.rank == static_cast<int32_t>(row.like.size());
  if (in_line) return fmt::format("ranks {}-{}", row.rank, row.like.back());
  return fmt::format("rank {} and {} like it", row.rank, row.like.size());
}

/// The pipeline stage; -1: not known.
int32_t stage_of(const Timeline& timeline, int32_t rank) {
  const auto instances = run::detail::items_of_rank(timeline.instances, rank);
  for (auto at = instances.first; at != instances.second; ++at)
    if (at->stage >= 0) return at->stage;
  const auto spans = run::detail::items_of_rank(timeline.spans, rank);
  for (auto at = spans.first; at != spans.second; ++at)
    if (at->stage >= 0) return at->stage;
  return -1;
}

/// The node of a rank and of all that are like it; -1: not known, or several.
/// The node of a rank and of all that are like it; -1: not known, or several.
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

using run::Span;
using run::SpanKind;
using run::Timeline;

constexpr int32_t deepest = 6;  // further lanes for what overlaps; what lies deeper is left out

std::string base64(const std::string& bytes) {
  constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8U | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j)
      text += i + j <= bytes.size() ? letters[group >> (18U - 6U * j) & 63U] : '=';
  }
  return text;
}

const char* kind_name(SpanKind kind) {
  constexpr const char* names[] = {"compute", "memory", "communication", "other",
                                   "host",    "pass",   "step",          "copy"};
  return names[as_size(kind)];
}

Json types_json(const Timeline& timeline) {
  Json types = Json::array();
  for (const run::SpanType& type : timeline.types) {
    Json json = {{"name", type.name}, {"kind", kind_name(type.kind)}};
    const bool is_ours = timeline.names == run::NameKind::ops;
    if (is_ours && (type.kind == SpanKind::compute || type.kind == SpanKind::memory))
      json["op_class"] = spec::enum_name(type.op_class);
    if (type.collective) json["collective"] = spec::enum_name(*type.collective);
    if (type.group) json["group"] = spec::enum_name(*type.group);
    types.push_back(std::move(json));
  }
  return types;
}

/// Where a span is drawn: marks first, then the device's streams, then the host; a lane of the
/// profiler within these; and how many spans of the lane lie around it.
struct LaneKey {
  int32_t order = 0, lane = -1, depth = 0;
  friend auto operator<=>(const LaneKey&, const LaneKey&) = default;
};

LaneKey key_of(const Timeline& timeline, const Span& span, int32_t lane) {
  const run::SpanType& type = timeline.types[as_size(span.type)];
  if (type.kind == SpanKind::step) return {0};
  if (type.kind == SpanKind::pass) return {1};
  return {2 + static_cast<int32_t>(type.stream), lane};
}

std::string lane_name(const Timeline& timeline, const LaneKey& key) {
  constexpr const char* plain[] = {"steps", "passes", "compute", "communication", "host"};
  const bool is_known = key.lane >= 0 && !timeline.lanes[as_size(key.lane)].name.empty();
  std::string name = is_known ? timeline.lanes[as_size(key.lane)].name : plain[key.order];
  if (key.depth > 0) name += fmt::format(" ({})", key.depth + 1);
  return name;
}

/// Gives overlapping spans of one lane their own depths. Spans come in order of their begin.
class Depths {
 public:
  /// Nothing for what lies too deep.
  std::optional<LaneKey> place(LaneKey key, const Span& span) {
    std::vector<Instant>& ends = ends_[key];
    for (key.depth = 0; key.depth < static_cast<int32_t>(ends.size()); ++key.depth) {
      Instant& end = ends[as_size(key.depth)];
      if (end > span.begin) continue;
      end = span.end;
      return key;
    }
    if (key.depth == deepest) return std::nullopt;
    ends.push_back(span.end);
    return key;
  }

 private:
  std::map<LaneKey, std::vector<Instant>> ends_;
};

using LaneNumbers = std::map<LaneKey, int64_t>;

/// Numbers the keys in their order.
void number(LaneNumbers& lanes) {
  int64_t next = 0;
  for (auto& [key, lane] : lanes)
    lane = next++;
}

Json names_json(const Timeline& timeline, const LaneNumbers& lanes) {
  Json names = Json::array();
  for (const auto& [key, lane] : lanes)
    names.push_back(lane_name(timeline, key));
  if (names.empty()) names.push_back("compute");
  return names;
}

struct Columns {
  std::vector<int64_t> rank, lane, begin, length, type, microbatch, layer, wait, bytes, pattern;

  void add_work(const Span& span, int64_t from) {
    begin.push_back(span.begin.nanoseconds() - from);
    length.push_back(std::max<int64_t>(0, span.end.nanoseconds() - span.begin.nanoseconds()));
    type.push_back(span.type);
    wait.push_back(std::max<int64_t>(0, (Instant() + span.wait).nanoseconds()));
    bytes.push_back(static_cast<int64_t>(std::max(0.0, span.bytes / unit::B)));
  }
};

// ---- the writer

class Writer {
 public:
  Writer(const run::Run& run, std::size_t most_spans)
      : run_(run), timeline_(run.timeline), rows_(rows_of(run.timeline)) {
    const run::Extent whole = *run::extent(timeline_);
    begin_ = whole.begin.nanoseconds();
    end_ = whole.end.nanoseconds();
    chosen_ = choose_spans(timeline_, most_spans);
    lanes_.resize(rows_.size());
  }

  Json json() {
    place_pieces();
    place_spans();
    for (LaneNumbers& lanes : lanes_) {
      if (!timeline_.patterns.empty()) lanes.insert(shared_.begin(), shared_.end());
      number(lanes);
    }
    Json json = {{"version", 1},
                 {"begin", begin_},
                 {"length", end_ - begin_},
                 {"types", types_json(timeline_)},
                 {"ranks", ranks_json()},
                 {"spans", spans_json()}};
    if (const std::string note = note_text(); !note.empty()) json["note"] = note;
    if (timeline_.patterns.empty()) return json;
    json["patterns"] = patterns_json();
    json["piece_spans"] = piece_spans_json();
    json["instances"] = instances_json();
    return json;
  }

 private:
  /// With patterns, a lane has the same number on every rank.
  LaneNumbers& lanes_of(std::size_t row) {
    return timeline_.patterns.empty() ? lanes_[row] : shared_;
  }

  void place_pieces() {
    for (const run::Pattern& pattern : timeline_.patterns)
      for (const run::PatternPiece& piece : pattern.pieces) {
        Depths depths;
        for (const Span* span : by_begin(piece)) {
          const LaneKey key = key_of(timeline_, *span, -1);
          const LaneKey placed = depths.place(key, *span).value_or(key);
          shared_.emplace(placed, 0);
          piece_spans_.emplace_back(span, placed);
        }
      }
  }
  static std::vector<const Span*> by_begin(const run::PatternPiece& piece) {
    std::vector<const Span*> spans = mapped(piece.spans, [](const Span& span) { return &span; });
    std::ranges::stable_sort(spans,
                             [](const Span* a, const Span* b) { return a->begin < b->begin; });
    return spans;
  }

  void place_spans() {
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const auto [first, last] = run::detail::items_of_rank(timeline_.spans, rows_[row].rank);
      Depths depths;
      for (const Span* span = first; span != last; ++span) {
        const auto i = as_size(span - timeline_.spans.data());
        if (!chosen_.is_sent[i]) continue;
        const int32_t lane = timeline_.details.empty() ? -1 : timeline_.details[i].lane;
        const auto placed = depths.place(key_of(timeline_, *span, lane), *span);
        too_deep_ += placed ? 0 : 1;
        if (!placed) continue;
        lanes_of(row).emplace(*placed, 0);
        spans_.push_back({span, row, *placed});
      }
    }
  }

  /// Of each row the lane of its device on which most time is spent: launches and host calls, which
  /// outnumber kernels, are not what one looks for first.
  std::vector<std::optional<int64_t>> main_lanes() const {
    std::vector<std::map<LaneKey, int64_t>> busy(rows_.size());
    for (const Placed& placed : spans_) {
      const bool is_marks_or_host = placed.lane.order < 2 || placed.lane.order == 4;
      if (!is_marks_or_host)
        busy[placed.row][placed.lane] +=
            placed.span->end.nanoseconds() - placed.span->begin.nanoseconds();
    }
    std::vector<std::optional<int64_t>> lanes(rows_.size());
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const auto most = std::ranges::max_element(
          busy[row], [](const auto& a, const auto& b) { return a.second < b.second; });
      if (most != busy[row].end()) lanes[row] = lanes_[row].at(most->first);
    }
    return lanes;
  }

  Json ranks_json() const {
    Json ranks = Json::array();
    const auto main = timeline_.patterns.empty()
                          ? main_lanes()
                          : std::vector<std::optional<int64_t>>(rows_.size());
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const TimelineRow& row = rows_[i];
      Json json = {{"rank", row.rank},
                   {"label", label_of(row)},
                   {"lanes", names_json(timeline_, lanes_[i])}};
      if (const int32_t stage = stage_of(timeline_, row.rank); stage >= 0) json["stage"] = stage;
      if (const int32_t node = node_of(run_, row); node >= 0) json["node"] = node;
      if (!row.like.empty()) json["like"] = row.like;
      if (main[i]) json["main"] = *main[i];
      ranks.push_back(std::move(json));
    }
    return ranks;
  }

  Json spans_json() const {
    Columns columns;
    for (const Placed& placed : spans_) {
      columns.rank.push_back(static_cast<int64_t>(placed.row));
      columns.lane.push_back(lanes_[placed.row].at(placed.lane));
      columns.add_work(*placed.span, begin_);
      columns.microbatch.push_back(placed.span->microbatch);
      columns.layer.push_back(placed.span->layer);
    }
    return {{"count", spans_.size()},
            {"rank", encoded_column(columns.rank)},
            {"lane", encoded_column(columns.lane)},
            {"begin", encoded_column(columns.begin)},
            {"length", encoded_column(columns.length)},
            {"type", encoded_column(columns.type)},
            {"microbatch", encoded_column(columns.microbatch)},
            {"layer", encoded_column(columns.layer)},
            {"wait", encoded_column(columns.wait)},
            {"bytes", encoded_column(columns.bytes)}};
  }

  Json patterns_json() const {
    Json patterns = Json::array();
    for (const run::Pattern& pattern : timeline_.patterns) {
      Json pieces = Json::array();
      for (const run::PatternPiece& piece : pattern.pieces)
        pieces.push_back({{"repeat", piece.repeat},
                          {"length", run::whole_nanoseconds(piece.length)},
                          {"first_layer", piece.first_layer},
                          {"spans", piece.spans.size()}});
      patterns.push_back({{"name", pattern.name}, {"pieces", std::move(pieces)}});
    }
    return patterns;
  }

  Json piece_spans_json() const {
    Columns columns;
    const LaneNumbers& lanes = lanes_.empty() ? shared_ : lanes_.front();
    for (const auto& [span, lane] : piece_spans_) {
      columns.lane.push_back(lanes.at(lane));
      columns.add_work(*span, 0);
    }
    return {{"count", piece_spans_.size()},           {"lane", encoded_column(columns.lane)},
            {"begin", encoded_column(columns.begin)}, {"length", encoded_column(columns.length)},
            {"type", encoded_column(columns.type)},   {"wait", encoded_column(columns.wait)},
            {"bytes", encoded_column(columns.bytes)}};
  }

  Json instances_json() const {
    Columns columns;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const auto [first, last] = run::detail::items_of_rank(timeline_.instances, rows_[row].rank);
      for (auto at = first; at != last; ++at) {
        columns.rank.push_back(static_cast<int64_t>(row));
        columns.begin.push_back(at->begin.nanoseconds() - begin_);
        columns.pattern.push_back(at->pattern);
        columns.microbatch.push_back(at->microbatch);
      }
    }
    return {{"count", columns.rank.size()},
            {"rank", encoded_column(columns.rank)},
            {"begin", encoded_column(columns.begin)},
            {"pattern", encoded_column(columns.pattern)},
            {"microbatch", encoded_column(columns.microbatch)}};
  }

  std::string note_text() const {
    std::string note = chosen_.note;
    if (too_deep_ > 0)
      note += fmt::format("{}{} spans inside more than {} others are left out",
                          note.empty() ? "" : ", ", whole(too_deep_), deepest);
    if (!note.empty()) note += "; triplepoint trace merge writes all of them for Perfetto";
    const bool any_like =
        std::ranges::any_of(rows_, [](const TimelineRow& row) { return !row.like.empty(); });
    if (any_like)
      note += fmt::format("{}{} ranks in {} rows: ranks of a row behave the same",
                          note.empty() ? "" : ". ", timeline_.num_ranks, rows_.size());
    return note.empty() ? "" : note + ".";
  }

  struct Placed {
    const Span* span;
    std::size_t row;
    LaneKey lane;
  };

  const run::Run& run_;
  const Timeline& timeline_;
  std::vector<TimelineRow> rows_;
  int64_t begin_ = 0, end_ = 0, too_deep_ = 0;
  ChosenSpans chosen_;
  LaneNumbers shared_;
  std::vector<LaneNumbers> lanes_;  // by row
  std::vector<std::pair<const Span*, LaneKey>> piece_spans_;
  std::vector<Placed> spans_;
};

}  // namespace

Json encoded_column(const std::vector<int64_t>& values) {
  if (values.empty()) return 0;
  if (std::ranges::all_of(values, [&](int64_t v) { return v == values[0]; })) return values[0];
  std::string bytes;
  int64_t before = 0;
  for (const int64_t value : values) {
    const int64_t difference = value - before;
    before = value;
    auto zigzag = static_cast<uint64_t>(difference >= 0 ? 2 * difference : -2 * difference - 1);
    for (; zigzag >= 0x80U; zigzag >>= 7U)
      bytes += static_cast<char>((zigzag & 0x7FU) | 0x80U);
    bytes += static_cast<char>(zigzag);
  }
  return base64(bytes);
}

Json timeline_data(const run::Run& run, std::size_t most_spans) {
  if (run.timeline.empty()) return nullptr;
  return Writer(run, most_spans).json();
}

}  // namespace triplepoint::report
