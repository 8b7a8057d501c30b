// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/flight_recorder/flight_recorder.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "triplepoint/trace/builder.h"
#include "triplepoint/trace/flight_recorder/pickle.h"
#include "triplepoint/trace/json_walk.h"
#include "triplepoint/trace/kernel_kind.h"

namespace triplepoint::trace {

namespace {

constexpr size_t most_pickle = size_t{256} << 20U;  // the ring buffer holds some thousand entries

struct Group {
  std::string description;
  std::vector<int32_t> ranks;
};

/// One entry, as far as we need it.
struct Entry {
  std::string name, group;
  int64_t record = -1, sequence = -1, number_of_group = 0;
  int64_t created = -1, started = -1, completed = -1, duration_ns = -1;
  double in_elements = 0, out_elements = 0;
  int element_bytes = 0;
  bool is_message = false;
};

/// Of a list of shapes: [[3, 4], [5]] has 17 elements.
double elements_of(JsonView shapes) {
  double total = 0;
  shapes.for_each([&](JsonView shape) {
    double count = 1;
    shape.for_each([&](JsonView size) { count *= size.real_or(0); });
    total += count;
  });
  return total;
}

std::vector<int32_t> numbers_in(std::string_view text) {
  std::vector<int32_t> numbers;
  for (size_t at = text.find_first_of("0123456789"); at != std::string_view::npos;
       at = text.find_first_of("0123456789", at)) {
    int32_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, fault] = std::from_chars(text.data() + at, end, number);
    if (fault == std::errc()) numbers.push_back(number);
    at = static_cast<size_t>(stop - text.data());
    if (at >= text.size()) break;
  }
  return numbers;
}

Entry entry_of(JsonView json) {
  Entry entry;
  entry.name = json.at("profiling_name").text();
  const JsonView group = json.at("process_group");
  entry.group = group.is_array() ? group.at(size_t{0}).text() : group.text();
  entry.number_of_group = json.at("pg_id").integer_or(0);
  entry.record = json.at("record_id").integer_or(-1);
  entry.is_message = json.at("is_p2p").is_true();
  // seq_id was one number for both before version 2.
  const JsonView sequence = json.at(entry.is_message ? "p2p_seq_id" : "collective_seq_id");
  entry.sequence = sequence.integer_or(json.at("seq_id").integer_or(-1));
  entry.created = json.at("time_created_ns").integer_or(-1);
  entry.started = json.at("time_discovered_started_ns").integer_or(-1);
  entry.completed = json.at("time_discovered_completed_ns").integer_or(-1);
  if (const auto ms = json.at("duration_ms").real(); ms && *ms >= 0 && *ms < 1e9)
    entry.duration_ns = std::llround(*ms * 1e6);
  entry.in_elements = elements_of(json.at("input_sizes"));
  entry.out_elements = elements_of(json.at("output_sizes"));
  JsonView type = json.at("input_dtypes").at(size_t{0});
  if (type.text().empty()) type = json.at("output_dtypes").at(size_t{0});
  entry.element_bytes = element_size(type.text());
  return entry;
}

class Dump {
 public:
  void take_groups(JsonView config) {
    config.for_each_member([&](std::string_view key, JsonView group) {
      Group& known = groups_[std::string(key)];
      known.description = group.at("desc").text();
      const JsonView ranks = group.at("ranks");  // "[0, 1]", or a list
      known.ranks = numbers_in(ranks.text());
      ranks.for_each(
          [&](JsonView rank) { known.ranks.push_back(static_cast<int32_t>(rank.integer_or(0))); });
    });
  }

  void take_entry(JsonView json) {
    const Entry entry = entry_of(json);
    if (entry.name.empty() || entry.created <= 0)
      return builder_.skip("an entry has no name or no time of creation");
    last_ = std::max({last_, entry.created, entry.started, entry.completed});
    entries_.push_back(entry);
  }

  Trace finish(const ReadOptions& options) && {
    rank_ = options.rank.value_or(options.rank_if_unknown.value_or(0));
    for (const Entry& entry : entries_)
      add(entry);
    if (unfinished_ > 0) {
      builder_.facts()["unfinished"] = std::to_string(unfinished_);
      builder_.facts()["first_unfinished"] = first_unfinished_;
    }
    return std::move(builder_).finish(0);
  }

  TraceBuilder& builder() { return builder_; }

 private:
  void add(const Entry& entry) {
    run::Span span;
    span.rank = rank_;
    const bool ended = entry.completed >= 0;
    const int64_t end = ended ? entry.completed : last_;
    const int64_t seen = entry.started >= 0 ? entry.started : entry.created;
    const bool timed = ended && entry.duration_ns >= 0;
    const int64_t begin = timed ? end - entry.duration_ns : std::min(seen, end);
    span.begin = Instant(begin);
    span.end = Instant(end);
    const auto collective = collective_of(entry.name);
    const bool whole_is_out = collective == spec::Collective::all_gather && entry.out_elements > 0;
    span.bytes =
        (whole_is_out ? entry.out_elements : entry.in_elements) * entry.element_bytes * unit::B;
    span.type =
        builder_.type({.name = name_without_peers(entry.name),
                       .kind = run::SpanKind::communication,
                       .stream = run::Stream::communication,
                       .op_class = spec::OpClass::communication,
                       .collective = entry.is_message ? spec::Collective::send_recv : collective});
    run::SpanDetail detail{.sequence = entry.sequence, .correlation = entry.record};
    const std::string label = group_label(entry);
    detail.lane = builder_.lane(
        {rank_, run::Stream::communication, entry.number_of_group, "process group " + label});
    detail.communicator = communicator_of(entry, label);
    detail.in_elements = std::llround(std::min(entry.in_elements, 9e18));
    detail.out_elements = std::llround(std::min(entry.out_elements, 9e18));
    builder_.add(span, detail);
    if (!ended && unfinished_++ == 0)
      first_unfinished_ = fmt::format("{} number {} of {} ({})", entry.name, entry.sequence, label,
                                      entry.started >= 0 ? "started" : "scheduled");
  }

  /// "nccl:send 0->1" is of the type "nccl:send".
  static std::string name_without_peers(const std::string& name) {
    return name.substr(0, name.find(' '));
  }

  std::string group_label(const Entry& entry) const {
    const auto known = groups_.find(entry.group);
    const bool named = known != groups_.end() && !known->second.description.empty();
    return named ? known->second.description : entry.group;
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
    std::vector<int32_t> peers = numbers_in(entry.name);
    if (peers.size() != 2) return group;
    const bool receives = entry.name.find("<-") != std::string::npos;
    if (receives) std::swap(peers[0], peers[1]);
    for (int32_t& peer : peers)  // numbered inside the group
      if (static_cast<size_t>(peer) < group.ranks.size())
        peer = group.ranks[static_cast<size_t>(peer)];
    return {.name = fmt::format("{} {}->{}", group.name, peers[0], peers[1]),
            .ranks = peers,
            .end = receives ? run::MessageEnd::receiver : run::MessageEnd::sender,
            .peer = peers[receives ? 0 : 1]};
  }

  TraceBuilder builder_{"flight_recorder"};
  std::map<std::string, Group> groups_;
  std::vector<Entry> entries_;
  int32_t rank_ = 0;
  int64_t last_ = 0, unfinished_ = 0;
  std::string first_unfinished_;
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
  return std::move(dump).finish(options);
}

}  // namespace

bool looks_like_flight_recorder(std::string_view head) {
  const auto has = [&](std::string_view word) { return head.find(word) != std::string_view::npos; };
  if (looks_like_pickle(head)) return has("entries") || has("pg_config") || has("nccl_comm_state");
  return has("\"entries\"") && has("\"record_id\"") && has("\"profiling_name\"");
}

Result<Trace> read_flight_recorder(Input& input, const ReadOptions& options) {
  if (!looks_like_pickle(TPT_TRY(input.peek(2)))) return read_json(input, options);
  const std::string bytes = TPT_TRY(input.rest(most_pickle));
  Result<std::string> json = pickle_to_json(bytes);
  if (!json) return error(fmt::format("{}: {}", input.name(), json.error().what));
  Input text = Input::of_text(*std::move(json), input.name());
  return read_json(text, options);
}

}  // namespace triplepoint::trace
