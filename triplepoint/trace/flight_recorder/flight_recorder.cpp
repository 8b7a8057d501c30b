// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "triplepoint/base/number_text.h"
#include "triplepoint/base/statistics.h"
#include "triplepoint/base/text.h"

#include "triplepoint/run/issued.h"

#include "triplepoint/trace/builder.h"
#include "triplepoint/trace/json_walk.h"
#include "triplepoint/trace/kernel_kind.h"
#include "triplepoint/trace/readers.h"

namespace triplepoint::trace {

namespace {

constexpr size_t most_pickle = size_t{256} << 20U;  // the ring buffer holds some thousand entries

struct Group {
  std::string description;
  std::vector<int32_t> ranks;
};

/// One entry, as far as we need it.
struct Entry {
  std::string name, group, frame;
  int64_t record = -1, sequence = -1, number_of_group = 0;
  int64_t created = -1, completed = -1;
  std::optional<int64_t> duration_ns;
  run::IssueState state = run::IssueState::scheduled;
  std::optional<double> in_elements, out_elements;
  int element_bytes = 0;
  bool is_message = false;
};

/// Of a list of shapes: [[3, 4], [5]] has 17 elements. Nothing where there is no shape, or one that
/// is no list of sizes.
std::optional<double> elements_of(JsonView shapes) {
  std::optional<double> total;
  bool are_known = shapes.is_array();
  shapes.for_each([&](JsonView shape) {
    double count = 1;
    are_known = are_known && shape.is_array();
    shape.for_each([&](JsonView size) {
      are_known = are_known && size.real_or(-1) >= 0;
      count *= size.real_or(0);
    });
    total = total.value_or(0) + count;
  });
  return are_known ? total : std::nullopt;
}

/// Where the call stands in the program: the innermost frames outside of PyTorch.
std::string frame_of(JsonView frames) {
  constexpr size_t most = 3;
  std::vector<std::string> lines;
  frames.for_each([&](JsonView frame) {
    const std::string_view file = frame.at("filename").text();
    if (file.empty() || lines.size() == most || contains(file, "/torch/")) return;
    lines.push_back(fmt::format("{} ({}:{})", frame.at("name").text(),
                                file.substr(file.rfind('/') + 1), frame.at("line").integer_or(0)));
  });
  return joined(lines, " < ");
}

/// What the entry says itself; of old versions that say nothing, what its times say.
run::IssueState state_of(JsonView json, const Entry& entry) {
  for (size_t i = 0; i < run::issue_state_words.size(); ++i)
    if (json.at("state").text() == run::issue_state_words[i])
      return static_cast<run::IssueState>(i);
  if (entry.completed > 0) return run::IssueState::completed;
  return json.at("time_discovered_started_ns").integer_or(-1) > 0 ? run::IssueState::started
                                                                  : run::IssueState::scheduled;
}

Entry entry_of(JsonView json) {
  Entry entry;
  entry.name = json.at("profiling_name").text();
  const JsonView group = json.at("process_group");
  entry.group = group.is_array() ? group.at(size_t{0}).text() : group.text();
  entry.frame = frame_of(json.at("frames"));
  entry.number_of_group = json.at("pg_id").integer_or(0);
  if (entry.group.empty()) entry.group = std::to_string(entry.number_of_group);  // version 1
  entry.record = json.at("record_id").integer_or(-1);
  entry.is_message = json.at("is_p2p").is_true();
  // seq_id was one number for both before version 2.
  const JsonView sequence = json.at(entry.is_message ? "p2p_seq_id" : "collective_seq_id");
  entry.sequence = sequence.integer_or(json.at("seq_id").integer_or(-1));
  entry.created = json.at("time_created_ns").integer_or(-1);
  entry.completed = json.at("time_discovered_completed_ns").integer_or(-1);
  if (const auto ms = json.at("duration_ms").real(); ms && *ms >= 0 && *ms < 1e9)
    entry.duration_ns = std::llround(*ms * 1e6);
  entry.state = state_of(json, entry);
  entry.in_elements = elements_of(json.at("input_sizes"));
  entry.out_elements = elements_of(json.at("output_sizes"));
  JsonView type = json.at("input_dtypes").at(size_t{0});
  if (type.text().empty()) type = json.at("output_dtypes").at(size_t{0});
  entry.element_bytes = element_size(type.text());
  return entry;
}

/// The number at the end of a file's name, which PyTorch puts there: "nccl_trace_rank_node-7_40",
/// "trace_rank0.json".
std::optional<int32_t> last_number(std::string_view name) {
  name = name.substr(name.find_last_of('/') + 1);
  const std::vector<int32_t> numbers = numbers_in<int32_t>(name);
  return numbers.empty() ? std::nullopt : std::optional(numbers.back());
}

class Dump {
 public:
  void take_groups(JsonView config) {
    config.for_each_member([&](std::string_view key, JsonView group) {
      Group& known = groups_[std::string(key)];
      known.description = group.at("desc").text();
      const JsonView ranks = group.at("ranks");  // "[0, 1]", or a list
      known.ranks = numbers_in<int32_t>(ranks.text());
      ranks.for_each(
          [&](JsonView rank) { known.ranks.push_back(static_cast<int32_t>(rank.integer_or(0))); });
    });
  }

  void take_entry(JsonView json) {
    Entry entry = entry_of(json);
    if (entry.name.empty()) return builder_.skip("an entry has no name");
    entries_.push_back(std::move(entry));
  }

  Trace finish(const ReadOptions& options, const std::string& file) && {
    settle_times();
    rank_ = find_rank(options, file);
    const std::vector<size_t> wholes = wholes_of_entries();
    for (size_t i = 0; i < entries_.size(); ++i)
      add(i, wholes[i]);
    size_t most = 0;
    for (const auto& [name, group] : groups_)
      most = std::max(most, group.ranks.size());
    if (most > 0) builder_.numbers().world_size = static_cast<int64_t>(most);
    // Stamps are since 1970; a dump without any has an order only.
    Trace trace = std::move(builder_).finish(has_times_ ? std::optional<int64_t>(0) : std::nullopt);
    trace.rank = rank_;
    return trace;
  }

  TraceBuilder& builder() { return builder_; }

 private:
  /// An issue without a plausible time keeps its place in the order: it gets the time of the one
  /// before, and no length. A length is measured where the recorder states it, and it fits between
  /// issue and end.
  void settle_times() {
    constexpr int64_t day = int64_t{86400} * 1'000'000'000, slack = 10'000'000;
    std::vector<int64_t> known;
    for (const Entry& entry : entries_)
      if (entry.created > 0) known.push_back(entry.created);
    has_times_ = !known.empty();
    if (!has_times_) known.push_back(day);
    const int64_t middle = upper_median(known);
    const auto is_near = [&](int64_t ns) { return ns > 0 && std::abs(ns - middle) < day; };
    const auto first = std::ranges::find_if(known, is_near);
    int64_t before = first == known.end() ? middle : *first;
    for (Entry& entry : entries_) {
      const bool placed = is_near(entry.created);
      if (!placed) {
        builder_.note(
            "an entry has no plausible time of creation: it keeps its place in the order");
        entry.created = before;
      }
      before = entry.created;
      const bool ended = entry.state == run::IssueState::completed && is_near(entry.completed);
      if (!ended || (placed && entry.completed < entry.created))
        entry.duration_ns.reset();
      else if (placed && entry.duration_ns &&
               *entry.duration_ns > entry.completed - entry.created + slack) {
        builder_.note("a duration is longer than from issue to end: it is not used");
        entry.duration_ns.reset();
      }
    }
  }

  /// Ranks that are in all of the groups: those of entries, or all that the dump lists.
  std::optional<std::set<int32_t>> common_ranks(bool of_entries) const {
    std::set<std::string> used;
    for (const Entry& entry : entries_)
      used.insert(entry.group);
    std::optional<std::set<int32_t>> common;
    for (const auto& [name, group] : groups_) {
      if (group.ranks.empty() || (of_entries && !used.contains(name))) continue;
      std::set<int32_t> both;
      for (const int32_t rank : group.ranks)
        if (!common || common->contains(rank)) both.insert(rank);
      common = std::move(both);
    }
    return common;
  }

  /// From the dump's groups where these leave one rank only, from its messages, which name their
  /// own end, else the last number of the file's name if the groups of its entries have such a
  /// rank.
  std::optional<int32_t> find_rank(const ReadOptions& options, const std::string& file) const {
    if (options.rank) return options.rank;
    const auto of_entries = common_ranks(true), of_all = common_ranks(false);
    if (of_entries && of_entries->size() == 1) return *of_entries->begin();
    for (const Entry& entry : entries_) {
      const std::vector<int32_t> peers = numbers_in<int32_t>(entry.name);
      const auto group = groups_.find(entry.group);
      if (!entry.is_message || peers.size() != 2 || group == groups_.end()) continue;
      if (const auto own = as_size(peers[0]); own < group->second.ranks.size())
        return group->second.ranks[own];
    }
    if (of_all && of_all->size() == 1) return *of_all->begin();
    auto named = last_number(file);
    if (!named) named = options.rank_if_unknown;
    const auto& possible = of_entries ? of_entries : of_all;
    return named && (!possible || possible->contains(*named)) ? named : std::nullopt;
  }

  /// Of each entry, the one that ended it together with others (those of coalesced operations stay
  /// "scheduled"); itself where none did.
  std::vector<size_t> wholes_of_entries() const {
    std::map<std::tuple<std::string, bool, int64_t>, size_t> whole;
    for (size_t i = 0; i < entries_.size(); ++i)
      if (entries_[i].name.ends_with("coalesced")) whole[key_of(entries_[i])] = i;
    std::vector<size_t> all(entries_.size());
    for (size_t i = 0; i < all.size(); ++i) {
      const auto found = whole.find(key_of(entries_[i]));
      all[i] = found == whole.end() || found->second < i ? i : found->second;
    }
    return all;
  }
  static std::tuple<std::string, bool, int64_t> key_of(const Entry& entry) {
    return {entry.group, entry.is_message, entry.sequence};
  }

  void add(size_t index, size_t whole) {
    const Entry& entry = entries_[index];
    const run::IssueState state = entries_[whole].state;
    // A whole stands for its parts; of messages that have not ended, the parts tell the peers.
    const bool is_whole = entry.name.ends_with("coalesced");
    if (whole != index && (!entry.is_message || state == run::IssueState::completed)) return;
    if (is_whole && entry.is_message && state != run::IssueState::completed) return;
    const auto collective = collective_of(entry.name);
    run::Span span{Instant(entry.created), Instant(entry.created)};
    span.rank = rank_.value_or(0);
    const bool whole_is_out =
        collective == spec::Collective::all_gather && entry.out_elements.value_or(0) > 0;
    span.bytes = (whole_is_out ? entry.out_elements : entry.in_elements).value_or(0) *
                 entry.element_bytes * unit::B;
    run::SpanType type{.name = name_without_peers(entry.name),
                       .kind = run::SpanKind::communication,
                       .stream = run::Stream::communication,
                       .op_class = spec::OpClass::communication,
                       .collective = entry.is_message ? spec::Collective::send_recv : collective};
    if (entry.duration_ns) {
      span.end = Instant(entry.completed);
      span.begin = Instant(entry.completed - *entry.duration_ns);
    } else {
      type.name = run::issued_name(type.name, state);
      type.kind = run::SpanKind::host;
      type.stream = run::Stream::host;
    }
    span.type = builder_.type(type);
    run::SpanDetail detail{.sequence = entry.sequence, .correlation = entry.record};
    const std::string label = group_label(entry);
    detail.lane =
        builder_.lane({span.rank, type.stream, entry.number_of_group, "process group " + label});
    detail.communicator = communicator_of(entry, label);
    const auto count = [](std::optional<double> n) { return std::llround(std::min(*n, 9e18)); };
    if (entry.in_elements) detail.in_elements = count(entry.in_elements);
    if (entry.out_elements) detail.out_elements = count(entry.out_elements);
    builder_.add(span, detail);
    if (!entry.frame.empty()) add_frame(entry, span.rank);
  }

  /// The program's line, at the instant of the issue: both share the number of the record.
  void add_frame(const Entry& entry, int32_t rank) {
    run::Span span{Instant(entry.created), Instant(entry.created)};
    span.rank = rank;
    span.type = builder_.type(
        {.name = entry.frame, .kind = run::SpanKind::host, .stream = run::Stream::host});
    builder_.add(span, {.lane = builder_.lane({rank, run::Stream::host, -1, "stack"}),
                        .correlation = entry.record});
  }

  /// "nccl:send 0->1" is of the type "nccl:send".
  static std::string name_without_peers(const std::string& name) {
    return name.substr(0, name.find(' '));
  }

  /// As Kineto names groups: descriptions alone may be those of several.
  std::string group_label(const Entry& entry) const {
    const auto known = groups_.find(entry.group);
    if (known == groups_.end()) return entry.group;
    const std::string& what = known->second.description;
    return what.empty() || what == "undefined" ? entry.group : entry.group + " " + what;
  }

  int32_t communicator_of(const Entry& entry, const std::string& label) {
    run::Communicator group{.name = label};
    if (const auto known = groups_.find(entry.group); known != groups_.end())
      group.ranks = known->second.ranks;
    if (entry.is_message) group = pair_of(entry, group);
    group.size = static_cast<int32_t>(group.ranks.size());
    return builder_.communicator(group);
  }

  /// "nccl:send 0->1" and "nccl:recv 1<-0": sender first, so that both ends name the same pair.
  static run::Communicator pair_of(const Entry& entry, const run::Communicator& group) {
    std::vector<int32_t> peers = numbers_in<int32_t>(entry.name);
    if (peers.size() != 2) return group;
    const bool receives = contains(entry.name, "<-");
    if (receives) std::swap(peers[0], peers[1]);
    for (int32_t& peer : peers)  // numbered inside the group
      if (as_size(peer) < group.ranks.size()) peer = group.ranks[as_size(peer)];
    return {.name = fmt::format("{} {}->{}", group.name, peers[0], peers[1]),
            .ranks = peers,
            .end = receives ? run::MessageEnd::receiver : run::MessageEnd::sender,
            .peer = peers[receives ? 0 : 1]};
  }

  TraceBuilder builder_{"flight_recorder"};
  std::map<std::string, Group> groups_;
  std::vector<Entry> entries_;
  std::optional<int32_t> rank_;
  bool has_times_ = false;
};

Result<Trace> read_json(Input& input, const ReadOptions& options) {
  Dump dump;
  JsonWalk walk(input, {"", ".entries"});
  JsonItem item;
  JsonRecord record;
  while (TPT_TRY(walk.next(item))) {
    const auto json = record.parse(item.text);
    if (!json)
      dump.builder().skip("an entry is not valid JSON");
    else if (item.path == ".entries[]")
      dump.take_entry(*json);
    else if (item.path == ".pg_config")
      dump.take_groups(*json);
    else if (item.path == ".version")
      dump.builder().facts()["version"] = json->text();
  }
  for (int64_t i = 0; i < walk.broken(); ++i)
    dump.builder().skip("text between the entries is no JSON");
  if (walk.is_truncated()) dump.builder().truncated("the file ends before its entries do");
  return std::move(dump).finish(options, input.name());
}

}  // namespace

bool looks_like_flight_recorder(std::string_view head) {
  const auto has = [&](std::string_view word) { return contains(head, word); };
  if (looks_like_pickle(head))
    return has("entries") || has("pg_config") || has("nccl_comm_state") || has("profiling_name");
  if (has("\"nccl_version\"") && has("\"pg_config\"")) return true;  // perhaps without entries
  return has("\"entries\"") && has("\"record_id\"") && has("\"profiling_name\"");
}

Result<Trace> read_flight_recorder(Input& input, const ReadOptions& options) {
  if (!looks_like_pickle(TPT_TRY(input.peek(2)))) return read_json(input, options);
  const std::string bytes = TPT_TRY(input.rest(most_pickle));
  Result<std::string> json = pickle_to_json(bytes);
  if (!json) return error("{}: {}", input.name(), json.error().what);
  if (json->starts_with('[')) *json = "{\"entries\": " + *json + "}";  // of PyTorch 2.2
  Input text = Input::of_text(*std::move(json), input.name());
  return read_json(text, options);
}

}  // namespace triplepoint::trace
