// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/kineto/collector.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "triplepoint/base/text.h"

#include "triplepoint/trace/builder.h"
#include "triplepoint/trace/bulk.h"
#include "triplepoint/trace/json_walk.h"
#include "triplepoint/trace/kernel_kind.h"
#include "triplepoint/trace/plausible.h"

namespace triplepoint::trace::kineto {

int32_t NameTable::find(std::string_view name, uint32_t salt) const {
  const auto numbers = of_salt_.find(salt);
  if (numbers == of_salt_.end()) return -1;
  return value_at(numbers->second, name).value_or(-1);
}

void NameTable::give(std::string_view name, uint32_t salt, int32_t number) {
  of_salt_[salt].emplace(name, number);
  bytes_ += sizeof(Numbers::value_type) + 3 * sizeof(void*) + name.size();
}

namespace {

using run::SpanKind;

uint64_t key_of(std::string_view text, uint64_t salt) {
  return std::hash<std::string_view>()(text) ^ (salt * 0x9e3779b97f4a7c15);
}

/// A JSON string's text without its escapes; as it is where they are not valid.
std::string unescaped(std::string_view raw) {
  if (!contains(raw, '\\')) return std::string(raw);
  JsonRecord record;
  const auto text = record.parse(fmt::format("[\"{}\"]", raw));
  return std::string(text ? text->at(size_t{0}).text() : raw);
}

// Of one span until everything is sorted: itself, its detail, its place in the order, and a copy
// of the larger half while it moves.
constexpr size_t bytes_per_span = 2 * sizeof(run::Span) + sizeof(run::SpanDetail) + 8;

HostSpans level_of(Category category) {
  switch (category) {
    case Category::python:
      return HostSpans::all;
    case Category::op:
    case Category::annotation:
    case Category::host:
      return HostSpans::ops;
    case Category::runtime:
      return HostSpans::launches;
    default:
      return HostSpans::none;
  }
}

bool is_step(const Event& event) {
  return event.category == Category::annotation && names_step(event.name);
}

/// The number at the end of "stream 7".
int64_t trailing_number(std::string_view text) {
  int64_t number = -1, place = 1;
  for (size_t i = text.size(); i > 0 && place < 1'000'000'000; --i, place *= 10) {
    const char c = text[i - 1];
    if (c < '0' || c > '9') break;
    number = std::max<int64_t>(number, 0) + (c - '0') * place;
  }
  return number;
}

int64_t number_of(const Id& id) {
  return id.text.empty() ? id.number : trailing_number(id.text);
}

/// "[0, 1, 5]"; empty if anything else is in it, such as the "..." of a long list.
std::vector<int32_t> ranks_of(std::string_view text) {
  std::vector<int32_t> ranks;
  int64_t number = -1;
  for (const char c : text) {
    if (c >= '0' && c <= '9') {
      number = std::max<int64_t>(number, 0) * 10 + (c - '0');
      if (number > std::numeric_limits<int32_t>::max()) return {};
    } else if (c == ',' || c == ']') {
      if (number >= 0) ranks.push_back(static_cast<int32_t>(number));
      number = -1;
    } else if (c != ' ' && c != '[') {
      return {};
    }
  }
  return ranks;
}

/// Which end of a message these arguments are of, and the rank at its other end.
std::pair<run::MessageEnd, int32_t> message_of(const CollectiveArguments& said) {
  const bool sends = said.name == "send", receives = said.name == "recv";
  if (!sends && !receives) return {run::MessageEnd::none, -1};
  const int64_t peer = sends ? said.destination : said.source;
  const bool known = peer >= 0 && peer <= std::numeric_limits<int32_t>::max();
  return {sends ? run::MessageEnd::sender : run::MessageEnd::receiver,
          known ? static_cast<int32_t>(peer) : -1};
}

/// The product of the first list in "[[394241], [], []]" or "[[[2, 3]], []]".
int64_t first_elements(std::string_view dims) {
  int64_t all = 1, number = -1;
  for (const char c : dims) {
    if (c >= '0' && c <= '9') {
      number = std::max<int64_t>(number, 0) * 10 + (c - '0');
      if (number > (int64_t{1} << 40)) return -1;
      continue;
    }
    if (number >= 0 && __builtin_mul_overflow(all, number, &all)) return -1;
    if (c == ']' && number < 0) return -1;  // an empty list: nothing is known
    if (c == ']') return all;
    number = -1;
  }
  return -1;
}

/// The first text in "[\"float\", \"\"]".
std::string_view first_text(std::string_view list) {
  const size_t begin = list.find('"');
  if (begin == std::string_view::npos) return {};
  return list.substr(begin + 1, list.find('"', begin + 1) - begin - 1);
}

/// Bytes of the whole array, as nccl-tests count them.
Bytes payload(const CollectiveCall& call) {
  using spec::Collective;
  const bool by_output = call.collective == Collective::all_gather;
  const int64_t elements =
      std::max<int64_t>(0, by_output ? call.out_elements : std::max(call.in_elements, int64_t{0}));
  const int64_t received = call.collective == Collective::send_recv && elements == 0
                               ? std::max(call.out_elements, int64_t{0})
                               : elements;
  return as_real(received) * call.element_bytes * unit::B;
}

}  // namespace

void apply(const CollectiveCall& call, run::Span& span, run::SpanDetail& detail) {
  detail.communicator = call.communicator;
  detail.sequence = call.sequence;
  detail.in_elements = call.in_elements;
  detail.out_elements = call.out_elements;
  span.bytes = payload(call);
}

Collector::Collector(const ReadOptions& options, Skipped& skipped)
    : host_(options.host),
      shapes_(options.shapes),
      most_bytes_(std::numeric_limits<size_t>::max()),
      skipped_(skipped) {
  constexpr double most = 1e18;
  if (options.memory_limit > Bytes())
    most_bytes_ = as_size(std::min(options.memory_limit / unit::B, most));
  timeline_.names = run::NameKind::kernels;
  // Growing would take the old room and the new at once.
  constexpr size_t most_room = size_t{16} << 30;
  if (options.memory_limit > Bytes()) expect(std::min(most_bytes_, most_room) / bytes_per_span);
}

void Collector::expect(size_t spans) {
  spans = std::min(spans, most_bytes_ / bytes_per_span);
  reserve_large(timeline_.spans, spans);
  reserve_large(timeline_.details, spans);
}

bool Collector::keeps(const Event& event) const {
  return level_of(event.category) <= host_ || is_step(event);
}

int32_t Collector::lane_of(const Event& event) {
  const bool device = on_device(event.category);
  int64_t number = device ? event.stream : number_of(event.thread);
  if (device && number < 0) number = number_of(event.thread);
  // Streams of one process differ between its devices; "pid" is the device there.
  const int64_t owner = device && event.device >= 0 ? event.device : number_of(event.process);
  uint64_t key = key_of(event.thread.text, static_cast<uint64_t>(number) * 0x9e3779b97f4a7c15 +
                                               static_cast<uint64_t>(owner) * 2 +
                                               static_cast<uint64_t>(device));
  // Where other tools merged the ranks of a job, the process tells them apart, not the device.
  if (!event.process.text.empty())
    key = key_of(event.process.text, key);
  else if (device)
    key += static_cast<uint64_t>(event.process.number - owner) * 0xff51afd7ed558ccd;
  if (key == last_lane_key_ && last_lane_ >= 0) return last_lane_;
  const auto [found, is_new] =
      lanes_.try_emplace(key, static_cast<int32_t>(timeline_.lanes.size()));
  if (is_new) {
    std::string name = device ? fmt::format("device {} stream {}", owner, number)
                              : fmt::format("thread {}", number);
    if (!device && !event.thread.text.empty()) name = unescaped(event.thread.text);
    text_bytes_ += 2 * (sizeof(run::Lane) + sizeof(Owner) + name.size());
    owners_.push_back(owner_of(event, device));
    timeline_.lanes.push_back({.rank = 0,
                               .stream = device ? run::Stream::compute : run::Stream::host,
                               .number = number,
                               .name = std::move(name)});
  }
  last_lane_key_ = key;
  last_lane_ = found->second;
  return last_lane_;
}

Collector::Owner Collector::owner_of(const Event& event, bool device) const {
  const std::string_view text = event.process.text;
  const size_t digit = text.find_last_not_of("0123456789");
  Owner owner{.device = device};
  if (const auto rank = rank_in_name(text))  // "100 rank1"
    owner.prefix = fmt::format("rank {}", *rank);
  else if (digit != std::string_view::npos && digit + 1 < text.size())
    owner.prefix = text.substr(0, digit + 1);
  else if (text.empty())
    owner.number = device && event.device >= 0 ? event.process.number - event.device
                   : device                    ? 0
                                               : event.process.number;
  return owner;
}

/// The process of each lane. By the texts before the ids, if there are several; else host processes
/// that launch go with devices in the order of their ids, if there are as many of both. All other
/// files are of one process, whatever it started.
std::vector<int32_t> Collector::processes_of_lanes() {
  std::vector<int32_t> process(timeline_.lanes.size(), 0);
  process_ranks_ = {0};
  std::set<std::string> prefixes;
  std::set<int64_t> hosts, devices;
  for (const Launch& launch : launches_)
    owners_[as_size(launch.lane)].launches = true;
  for (const Owner& owner : owners_) {
    if (!owner.prefix.empty()) prefixes.insert(owner.prefix);
    if (owner.device) devices.insert(owner.number);
    if (owner.launches) hosts.insert(owner.number);
  }
  const bool by_name = prefixes.size() > 1;
  if (!by_name && (hosts.size() < 2 || hosts.size() != devices.size())) return process;
  const auto place = [](const auto& all, const auto& one) {
    const auto found = all.find(one);
    return found == all.end() ? 0 : static_cast<int32_t>(std::distance(all.begin(), found));
  };
  for (size_t lane = 0; lane < process.size(); ++lane) {
    const Owner& owner = owners_[lane];
    process[lane] = by_name        ? place(prefixes, owner.prefix)
                    : owner.device ? place(devices, owner.number)
                                   : place(hosts, owner.number);
  }
  // "[TP01] ", "rank1:": the number if each has one, and no two the same.
  std::set<int32_t> numbers;
  for (const std::string& prefix : prefixes) {
    const size_t begin = prefix.find_first_of("0123456789");
    const size_t end = prefix.find_first_not_of("0123456789", begin);
    const auto number =
        begin == std::string::npos ? std::nullopt : whole_number(prefix.substr(begin, end - begin));
    const bool is_one =
        end == std::string::npos || prefix.find_first_of("0123456789", end) == std::string::npos;
    if (number && is_one && *number < 1 << 20) numbers.insert(static_cast<int32_t>(*number));
  }
  process_ranks_.assign(numbers.begin(), numbers.end());
  if (process_ranks_.size() != prefixes.size() || !by_name) {
    process_ranks_.clear();
    for (size_t i = 0; i < (by_name ? prefixes.size() : hosts.size()); ++i)
      process_ranks_.push_back(static_cast<int32_t>(i));
  }
  return process;
}

int32_t Collector::new_type(const Event& event, Role role, const CollectiveCall& call) {
  run::SpanType type{.name = unescaped(event.name)};
  switch (role) {
    case Role::host:
    case Role::step:
      type.kind = role == Role::step ? SpanKind::step : SpanKind::host;
      type.stream = run::Stream::host;
      break;
    case Role::copy:
      type.kind = SpanKind::copy;
      break;
    case Role::kernel:
    case Role::device: {
      const KernelKind kernel = kernel_kind(type.name);
      type.kind = kernel.kind;
      type.op_class = kernel.op_class;
      type.collective = call.collective ? call.collective : kernel.collective;
      // Whatever a kernel is called: one that names its collective is one.
      if (!event.collective.name.empty()) type.kind = SpanKind::communication;
      if (type.kind == SpanKind::communication) {
        type.stream = run::Stream::communication;
        type.op_class = spec::OpClass::communication;
      }
      break;
    }
  }
  timeline_.types.push_back(std::move(type));
  levels_.push_back(
      static_cast<uint8_t>(role == Role::step ? HostSpans::none : level_of(event.category)));
  return static_cast<int32_t>(timeline_.types.size()) - 1;
}

int32_t Collector::type_of(const Event& event, const CollectiveCall& call) {
  Role role = Role::host;
  if (event.category == Category::kernel) role = Role::kernel;
  if (event.category == Category::copy || event.category == Category::set) role = Role::copy;
  if (event.category == Category::device) role = Role::device;
  if (on_device(event.category) && event.name == "dma_request") role = Role::copy;  // MTIA's
  if (is_step(event)) role = Role::step;
  const uint32_t salt = static_cast<uint32_t>(role) | static_cast<uint32_t>(event.category) << 8 |
                        (call.collective ? static_cast<uint32_t>(*call.collective) + 1 : 0) << 16 |
                        static_cast<uint32_t>(!event.collective.name.empty()) << 24;
  int32_t type = names_.find(event.name, salt);
  if (type < 0) {
    type = new_type(event, role, call);
    names_.give(event.name, salt, type);
  }
  return type;
}

int32_t Collector::communicator_of(const CollectiveArguments& said) {
  if (said.group_name.empty() && said.group_ranks.empty() && said.group_size < 0) return -1;
  const auto [end, peer] = message_of(said);
  const std::string key =
      fmt::format("{}\n{}\n{}\n{}\n{} {}", said.group_name, said.group_description,
                  said.group_ranks, said.group_size, static_cast<int>(end), peer);
  const auto [found, is_new] =
      communicators_.try_emplace(key, static_cast<int32_t>(timeline_.communicators.size()));
  if (is_new) {
    text_bytes_ += 2 * (sizeof(run::Communicator) + key.size());
    const std::string name = unescaped(said.group_name);
    const std::string description = unescaped(said.group_description);
    std::vector<int32_t> ranks = ranks_of(said.group_ranks);
    const auto size = static_cast<int32_t>(
        said.group_size >= 0 && said.group_size <= std::numeric_limits<int32_t>::max()
            ? said.group_size
            : static_cast<int64_t>(ranks.size()));
    const bool plain = description.empty() || description == "undefined";
    timeline_.communicators.push_back(
        {.name = plain ? name : fmt::format("{} {}", name, description),
         .ranks = std::move(ranks),
         .size = size,
         .end = end,
         .peer = peer});
  }
  return found->second;
}

CollectiveCall Collector::call_of(const Event& event) {
  const CollectiveArguments& said = event.collective;
  CollectiveCall call;
  if (!said.name.empty())
    call.collective = collective_of(said.name);
  else if (event.name.starts_with("nccl:"))
    call.collective = collective_of(event.name.substr(5));
  else if (event.name.starts_with("symm_mem::"))
    call.collective = collective_of(event.name);
  call.communicator = communicator_of(said);
  call.sequence = said.sequence;
  call.in_elements = said.in_elements;
  call.out_elements = said.out_elements;
  call.element_bytes = element_size(said.dtype);
  if (call.in_elements < 0 && !said.input_dims.empty()) {
    call.in_elements = first_elements(said.input_dims);
    call.element_bytes = element_size(first_text(said.input_types));
  }
  return call;
}

void Collector::name_lane(const Event& event) {
  if (event.name != "thread_name" || event.label.empty()) return;
  // Metadata does not say whether its process is a device; streams were named after themselves.
  Event like_host = event;
  like_host.category = Category::op;
  const size_t before = timeline_.lanes.size();
  const int32_t lane = lane_of(like_host);
  if (timeline_.lanes.size() > before) {
    // Nothing ran there, or not yet; either way the name would be of no use.
    if (!contains(event.label, "stream")) timeline_.lanes.back().name = unescaped(event.label);
    return;
  }
  timeline_.lanes[as_size(lane)].name = unescaped(event.label);
}

void Collector::remember(const Event& event, int32_t lane) {
  if (event.category == Category::op || event.category == Category::annotation) {
    if (!names_collective(event.name)) return;
    const CollectiveCall call = call_of(event);
    if (!call.empty())
      ops_.push_back({.lane = lane,
                      .begin = *event.begin_ns,
                      .end = *event.begin_ns + *event.length_ns,
                      .external_id = event.external_id,
                      .call = call});
  } else if (event.category == Category::runtime && event.correlation >= 0 &&
             (contains(event.name, "Launch") || contains(event.name, "Memcpy"))) {
    launches_.push_back({.lane = lane,
                         .correlation = event.correlation,
                         .external_id = event.external_id,
                         .begin = *event.begin_ns,
                         .blocks = event.blocks,
                         .threads_per_block = event.threads_per_block});
  }
}

void Collector::keep_operator(const Event& event, int32_t lane) {
  const OperatorCall& kept =
      operators_.emplace_back(OperatorCall{.lane = lane,
                                           .begin = *event.begin_ns,
                                           .name = unescaped(event.name),
                                           .dims = std::string(event.collective.input_dims),
                                           .types = std::string(event.collective.input_types),
                                           .values = std::string(event.values),
                                           .sequence = event.sequence});
  text_bytes_ += 2 * sizeof(OperatorCall) + kept.name.size() + kept.dims.size() +
                 kept.types.size() + kept.values.size();
}

void Collector::leave_out(HostSpans kept) {
  host_ = kept;
  std::vector<run::Span>& spans = timeline_.spans;
  size_t left = 0;
  for (size_t i = 0; i < spans.size(); ++i) {
    if (levels_[as_size(spans[i].type)] > static_cast<uint8_t>(kept)) continue;
    spans[left] = spans[i];
    timeline_.details[left++] = timeline_.details[i];
  }
  spans.resize(left);
  timeline_.details.resize(left);
}

bool Collector::is_full() const {
  return timeline_.spans.size() * bytes_per_span + launches_.capacity() * sizeof(Launch) +
             ops_.capacity() * sizeof(CollectiveOp) + 2 * names_.bytes() +
             timeline_.types.size() * sizeof(run::SpanType) + text_bytes_ + open_bytes_ >=
         most_bytes_;
}

bool Collector::make_room() {
  constexpr const char* what[] = {"launches", "operators", "Python functions"};
  while (is_full() && host_ != HostSpans::none) {
    const auto less = static_cast<HostSpans>(static_cast<int>(host_) - 1);
    note_reason(skipped_, fmt::format("{} are left out so as to stay within the memory limit",
                                      what[static_cast<int>(less)]));
    leave_out(less);
  }
  if (is_full() && links_) {
    note_reason(skipped_,
                "collectives are not linked to what launched them so as to stay within "
                "the memory limit");
    links_ = false;
    launches_ = {};
    ops_ = {};
  }
  return !is_full();
}

bool Collector::has_sound_time(const Event& event) {
  int64_t end = 0;
  if (on_device(event.category) && event.begin_ns == 0 && event.length_ns == 0) {
    note_skipped(skipped_, "a span on a device has no time (0 to 0)");
    return false;
  }
  if (event.length_ns && *event.length_ns < 0) {
    note_skipped(skipped_, "an event takes a negative time");
    return false;
  }
  if (!event.begin_ns || !event.length_ns ||
      __builtin_add_overflow(*event.begin_ns, *event.length_ns, &end)) {
    note_skipped(skipped_, "an event has no begin or length that is a number");
    return false;
  }
  return true;
}

bool Collector::add(const Event& event) {
  if (event.phase == 'M') return name_lane(event), true;
  if (event.phase == 'B' || event.phase == 'E') return add_pair(event);
  if (event.phase != 'X') return true;
  if (event.category == Category::none) return ++unknown_, true;
  if (on_device(event.category) && waits_on_device(event.name)) return true;
  const bool is_timed = has_sound_time(event);
  if (!is_timed && !on_device(event.category)) return true;
  const bool is_kept = keeps(event);
  if (!is_kept && event.category == Category::python) return true;
  const int32_t lane = lane_of(event);
  if (links_ && is_timed) remember(event, lane);
  if (shapes_ && is_timed && event.category == Category::op) keep_operator(event, lane);
  if (is_full() && !make_room()) return false;
  if (keeps(event)) add_span(event, lane, is_timed);
  return true;
}

bool Collector::add_pair(const Event& event) {
  const uint64_t key = key_of(
      event.process.text, key_of(event.thread.text, static_cast<uint64_t>(event.process.number)) +
                              static_cast<uint64_t>(event.thread.number));
  std::vector<Open>& open = open_[key];
  if (event.phase == 'B') {
    open.push_back({std::string(event.name), std::string(event.process.text),
                    std::string(event.thread.text), std::string(event.collective.name), event});
    open_bytes_ += open.back().bytes();
    return !is_full() || make_room();
  }
  if (open.empty()) return note_skipped(skipped_, "an event's end has no begin"), true;
  const Open begun = std::move(open.back());
  open.pop_back();
  open_bytes_ -= begun.bytes();
  Event whole = begun.event;
  whole.phase = 'X';
  whole.name = begun.name;
  whole.process.text = begun.process;
  whole.thread.text = begun.thread;
  whole.label = {};
  whole.collective = {};
  whole.collective.name = begun.collective;
  if (event.begin_ns && whole.begin_ns &&
      __builtin_sub_overflow(*event.begin_ns, *whole.begin_ns, &whole.length_ns.emplace()))
    whole.length_ns.reset();
  return add(whole);
}

void Collector::add_span(const Event& event, int32_t lane, bool is_timed) {
  CollectiveCall call;
  if (event.category == Category::kernel && !event.collective.name.empty()) call = call_of(event);
  run::Span& span = timeline_.spans.emplace_back();
  std::optional<int64_t>& last_begin = owners_[as_size(lane)].last_begin;
  if (is_timed) {
    last_begin = event.begin_ns;
    span.begin = Instant(*event.begin_ns);
    span.end = Instant(*event.begin_ns + *event.length_ns);
  } else {
    const bool is_zero = event.begin_ns == 0 && event.length_ns == 0;
    span = span_without_length(event.begin_ns && !is_zero ? event.begin_ns : last_begin, 0);
  }
  span.type = type_of(event, call);
  run::SpanDetail& detail = timeline_.details.emplace_back();
  detail.lane = lane;
  detail.correlation = event.correlation;
  if (!on_device(event.category)) return;
  detail.blocks = event.blocks;
  if (event.threads_per_block >= 0 && event.threads_per_block <= INT32_MAX)
    detail.threads_per_block = static_cast<int32_t>(event.threads_per_block);
  detail.occupancy = event.occupancy;
  if (!event.collective.name.empty())
    apply(call, span, detail);
  else if (event.bytes >= 0)
    span.bytes = as_real(event.bytes) * unit::B;
}

run::Timeline Collector::take() {
  for (const auto& [key, open] : open_)
    for (const Open& begun : open)
      if (begun.event.category != Category::none)
        note_skipped(skipped_, "an event's begin has no end");
  const std::vector<int32_t> process = processes_of_lanes();
  for (Launch& launch : launches_)
    launch.process = process[as_size(launch.lane)];
  link_collectives(timeline_, std::move(ops_), launches_, process);
  link_grids(timeline_, launches_, process);
  if (process_ranks_.size() > 1) {
    const auto rank_of = [&](size_t lane) { return process_ranks_[as_size(process[lane])]; };
    for (size_t lane = 0; lane < timeline_.lanes.size(); ++lane)
      timeline_.lanes[lane].rank = rank_of(lane);
    for (size_t i = 0; i < timeline_.spans.size(); ++i)
      timeline_.spans[i].rank = rank_of(as_size(timeline_.details[i].lane));
  }
  launches_.clear();
  launches_.shrink_to_fit();
  return std::move(timeline_);
}

}  // namespace triplepoint::trace::kineto
