// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "triplepoint/base/result.h"

#include "trainer/comm/schedule.h"
#include "trainer/comm/schedule_parts.h"

// One segment of a collective in each of its algorithms; part of schedule.cpp.

namespace triplepoint::trainer {
namespace {

/// The members by node, in group order, and where this rank stands among them.
struct Nodes {
  std::vector<std::vector<int>> members;
  int node = 0, local = 0;
  bool even = true;

  explicit Nodes(const ScheduleRequest& request) {
    std::map<int, size_t> places;
    for (int i = 0; i < request.size; ++i) {
      const int name = request.nodes.empty() ? 0 : request.nodes[static_cast<size_t>(i)];
      const auto [place, is_new] = places.emplace(name, members.size());
      if (is_new) members.emplace_back();
      std::vector<int>& here = members[place->second];
      if (i == request.index)
        node = static_cast<int>(place->second), local = static_cast<int>(here.size());
      here.push_back(i);
    }
    for (const std::vector<int>& each : members)
      even = even && each.size() == members.front().size();
  }

  int count() const { return static_cast<int>(members.size()); }
  size_t most() const {
    size_t most = 0;
    for (const std::vector<int>& each : members)
      most = std::max(most, each.size());
    return most;
  }
  Team mine() const { return {members[static_cast<size_t>(node)], local}; }
  /// Those at one place in their nodes.
  Team across(int place) const {
    Team team{{}, node};
    for (const std::vector<int>& each : members)
      team.members.push_back(each[static_cast<size_t>(place)]);
    return team;
  }
};

inline Team everybody(const ScheduleRequest& request) {
  Team team{std::vector<int>(static_cast<size_t>(request.size)), request.index};
  std::iota(team.members.begin(), team.members.end(), 0);
  return team;
}

inline std::vector<Part> cut(const Slice& slice, int pieces) {
  std::vector<Part> parts;
  for (int i = 0; i < pieces; ++i) {
    const int64_t begin = block_begin(slice.count, i, pieces);
    parts.push_back(
        {{slice.array, slice.begin + begin, block_begin(slice.count, i + 1, pieces) - begin}});
  }
  return parts;
}

inline std::vector<Part> of_members(const std::vector<Part>& parts,
                                    const std::vector<int>& members) {
  std::vector<Part> chosen;
  for (const int member : members)
    chosen.push_back(parts[static_cast<size_t>(member)]);
  return chosen;
}

inline Part joined(const std::vector<Part>& parts) {
  Part all;
  for (const Part& part : parts)
    append(all, part);
  return all;
}

/// What every node's members have together.
inline std::vector<Part> of_nodes(const std::vector<Part>& parts, const Nodes& nodes) {
  std::vector<Part> all;
  for (const std::vector<int>& members : nodes.members)
    all.push_back(joined(of_members(parts, members)));
  return all;
}

/// What the members at equal places in their nodes have together.
inline std::vector<Part> of_places(const std::vector<Part>& parts, const Nodes& nodes) {
  std::vector<Part> all;
  for (int place = 0; place < nodes.mine().size(); ++place)
    all.push_back(joined(of_members(parts, nodes.across(place).members)));
  return all;
}

/// One segment of one collective, written into a lane.
class Writer {
 public:
  Writer(const ScheduleRequest& request, Algorithm algorithm)
      : request_(request), algorithm_(algorithm), nodes_(request), team_(everybody(request)) {}

  void all_reduce(LaneWriter& lane, const Slice& whole) const {
    const std::vector<Part> blocks = cut(whole, request_.size);
    switch (algorithm_) {
      case Algorithm::recursive_doubling:
        return doubling_all_reduce(lane, team_, {whole});
      case Algorithm::tree:
        tree_reduce(lane, team_, {whole});
        return tree_broadcast(lane, team_, {whole});
      case Algorithm::hierarchical:
        return nodes_.even ? even_nodes_all_reduce(lane, whole) : leaders_all_reduce(lane, whole);
      case Algorithm::pairwise:
        pairwise_reduce(lane, team_, blocks);
        return pairwise_gather(lane, team_, blocks);
      default:
        ring_reduce(lane, team_, blocks);
        return ring_gather(lane, team_, blocks);
    }
  }

  void gather(LaneWriter& lane, const std::vector<Part>& parts) const {
    switch (algorithm_) {
      case Algorithm::recursive_doubling:
        return doubling_gather(lane, team_, parts);
      case Algorithm::tree:
        tree_gather(lane, team_, parts);
        return tree_broadcast(lane, team_, joined(parts));
      case Algorithm::hierarchical:
        return hierarchical_gather(lane, parts);
      case Algorithm::pairwise:
        return pairwise_gather(lane, team_, parts);
      default:
        return ring_gather(lane, team_, parts);
    }
  }

  void reduce(LaneWriter& lane, const std::vector<Part>& parts) const {
    switch (algorithm_) {
      case Algorithm::recursive_doubling:
        return halving_reduce(lane, team_, parts);
      case Algorithm::tree:
        tree_reduce(lane, team_, joined(parts));
        return tree_scatter(lane, team_, parts);
      case Algorithm::hierarchical:
        return hierarchical_reduce(lane, parts);
      default:
        return pairwise_reduce(lane, team_, parts);
    }
  }

  void broadcast(LaneWriter& lane, const Slice& whole) const {
    Team team = team_;
    std::rotate(team.members.begin(), team.members.begin() + request_.root, team.members.end());
    team.me = (request_.index - request_.root + request_.size) % request_.size;
    if (algorithm_ == Algorithm::hierarchical) return hierarchical_broadcast(lane, whole);
    if (algorithm_ == Algorithm::tree) return tree_broadcast(lane, team, {whole});
    if (algorithm_ == Algorithm::pairwise) return send_to_each(lane, team, whole);
    if (team.me > 0) LaneWriter::receive(lane.next(), team.member(team.me - 1), {whole});
    if (team.me + 1 < team.size()) LaneWriter::send(lane.next(), team.member(team.me + 1), {whole});
  }

 private:
  void even_nodes_all_reduce(LaneWriter& lane, const Slice& whole) const {
    const Team inside = nodes_.mine(), outside = nodes_.across(nodes_.local);
    const std::vector<Part> parts = cut(whole, inside.size());
    const std::vector<Part> pieces =
        cut(parts[static_cast<size_t>(inside.me)].front(), outside.size());
    ring_reduce(lane, inside, parts);
    ring_reduce(lane, outside, pieces);
    ring_gather(lane, outside, pieces);
    ring_gather(lane, inside, parts);
  }

  void leaders_all_reduce(LaneWriter& lane, const Slice& whole) const {
    tree_reduce(lane, nodes_.mine(), {whole});
    if (nodes_.local == 0) {
      const std::vector<Part> pieces = cut(whole, nodes_.count());
      ring_reduce(lane, nodes_.across(0), pieces);
      ring_gather(lane, nodes_.across(0), pieces);
    }
    tree_broadcast(lane, nodes_.mine(), {whole});
  }

  void hierarchical_gather(LaneWriter& lane, const std::vector<Part>& parts) const {
    const Team inside = nodes_.mine();
    if (nodes_.even) {
      const Team outside = nodes_.across(nodes_.local);
      ring_gather(lane, outside, of_members(parts, outside.members));
      return ring_gather(lane, inside, of_places(parts, nodes_));
    }
    tree_gather(lane, inside, of_members(parts, inside.members));
    if (nodes_.local == 0) ring_gather(lane, nodes_.across(0), of_nodes(parts, nodes_));
    tree_broadcast(lane, inside, joined(parts));
  }

  void hierarchical_reduce(LaneWriter& lane, const std::vector<Part>& parts) const {
    const Team inside = nodes_.mine();
    if (nodes_.even) {
      const Team outside = nodes_.across(nodes_.local);
      ring_reduce(lane, inside, of_places(parts, nodes_));
      return ring_reduce(lane, outside, of_members(parts, outside.members));
    }
    tree_reduce(lane, inside, joined(parts));
    if (nodes_.local == 0) ring_reduce(lane, nodes_.across(0), of_nodes(parts, nodes_));
    tree_scatter(lane, inside, of_members(parts, inside.members));
  }

  /// The root, or the first of each other node, has it first.
  void hierarchical_broadcast(LaneWriter& lane, const Slice& whole) const {
    Team leaders, inside;
    for (const std::vector<int>& members : nodes_.members) {
      Team here{members, 0};
      const auto root = std::find(here.members.begin(), here.members.end(), request_.root);
      const bool first = root != here.members.end();
      if (first) std::rotate(here.members.begin(), root, root + 1);
      leaders.members.insert(first ? leaders.members.begin() : leaders.members.end(),
                             here.members.front());
      const auto me = std::find(here.members.begin(), here.members.end(), request_.index);
      if (me == here.members.end()) continue;
      here.me = static_cast<int>(me - here.members.begin());
      inside = here;
    }
    const auto me = std::find(leaders.members.begin(), leaders.members.end(), request_.index);
    leaders.me = static_cast<int>(me - leaders.members.begin());
    if (me != leaders.members.end()) tree_broadcast(lane, leaders, {whole});
    tree_broadcast(lane, inside, {whole});
  }

  static void send_to_each(LaneWriter& lane, const Team& team, const Slice& whole) {
    if (team.me > 0) return LaneWriter::receive(lane.next(), team.member(0), {whole});
    Round& round = lane.next();
    for (int i = 1; i < team.size(); ++i)
      LaneWriter::send(round, team.member(i), {whole});
  }

  const ScheduleRequest& request_;
  Algorithm algorithm_;
  Nodes nodes_;
  Team team_;
};

using spec::Collective;

/// First number of member i's block; of i = p the end of the last.
int64_t first_of_block(const ScheduleRequest& request, int64_t i) {
  if (request.blocks.empty()) return block_begin(request.count, i, request.size);
  return std::accumulate(request.blocks.begin(), request.blocks.begin() + i, int64_t{0});
}

int64_t largest_block(const ScheduleRequest& request) {
  if (request.blocks.empty()) return request.count / request.size;
  return *std::max_element(request.blocks.begin(), request.blocks.end());
}

/// Piece s of S of every member's block.
std::vector<Part> segment_of_blocks(const ScheduleRequest& request, Array array, int64_t segment,
                                    int64_t segments) {
  std::vector<Part> parts;
  for (int i = 0; i < request.size; ++i) {
    const int64_t block = first_of_block(request, i);
    const int64_t count = first_of_block(request, i + 1) - block;
    const int64_t begin = block_begin(count, segment, segments);
    parts.push_back({{array, block + begin, block_begin(count, segment + 1, segments) - begin}});
  }
  return parts;
}

Part moved(Part part, Array array, int64_t by) {
  for (Slice& slice : part)
    slice.array = array, slice.begin += by;
  return part;
}

/// The block arrives in scratch, gets this rank's numbers from the input, goes on; the last of them
/// lands in the output. Nothing is copied, nothing of the input is touched.
void ring_reduce_from_input(LaneWriter& lane, const Team& team, const std::vector<Part>& parts,
                            const Slice& output, int64_t scratch) {
  const int p = team.size();
  int64_t most = 0;
  for (const Part& part : parts)
    most = std::max(most, count_of(part));
  const auto part_at = [&](int place) { return parts[static_cast<size_t>((place + 2 * p) % p)]; };
  Part outgoing = part_at(team.me - 1);
  for (int step = 0; step + 1 < p; ++step) {
    Round& round = lane.next();
    LaneWriter::send(round, team.member(team.me + 1), outgoing);
    const Slice own = part_at(team.me - 2 - step).front();
    const Slice landed{Array::scratch, scratch + step % 3 * most, own.count};
    LaneWriter::receive(round, team.member(team.me - 1), {landed});
    if (own.count > 0)
      round.then.push_back(
          {LocalWork::Kind::combine, step + 2 == p ? output : landed, landed, own});
    outgoing = {landed};
  }
}

bool overlap(const Slice& a, const Slice& b) {
  return a.array == b.array && a.begin < b.begin + b.count && b.begin < a.begin + a.count;
}

bool touches(const Round& round, const Slice& slice) {
  const auto hit = [&](const Message& message) { return overlap(message.slice, slice); };
  const auto works_on = [&](const LocalWork& work) {
    return overlap(work.to, slice) || overlap(work.from, slice) || overlap(work.other, slice);
  };
  return std::any_of(round.sends.begin(), round.sends.end(), hit) ||
         std::any_of(round.receives.begin(), round.receives.end(), hit) ||
         std::any_of(round.then.begin(), round.then.end(), works_on);
}

bool is_read_or_sent(const Round& round, const LocalWork& work) {
  const auto hit = [&](const Slice& slice) {
    return overlap(slice, work.to) || overlap(slice, work.other);
  };
  for (const Message& message : round.sends)
    if (hit(message.slice)) return true;
  for (const Message& message : round.receives)
    if (message.slice != work.from && hit(message.slice)) return true;
  for (const LocalWork& other : round.then)
    if (&other != &work && (hit(other.to) || hit(other.from) || hit(other.other))) return true;
  return false;
}

/// Receives that are only added to something: done as the numbers arrive, where a transport can,
/// they need no place to land. Nothing of this round or the one before (whose end an early message
/// does not await) may touch what is added.
void mark_absorbed(const Round* before, Round& round) {
  for (size_t i = 0; i < round.then.size(); ++i) {
    LocalWork& work = round.then[i];
    if (work.kind != LocalWork::Kind::combine || is_read_or_sent(round, work)) continue;
    if (before != nullptr && (touches(*before, work.to) || touches(*before, work.other))) continue;
    for (Message& message : round.receives) {
      if (message.slice != work.from) continue;
      message.absorbed_by = static_cast<int>(i);
      work.can_reduce_on_receive = true;
    }
  }
}

bool may_land_during(const Round& before, const Round& round) {
  return std::none_of(round.receives.begin(), round.receives.end(),
                      [&](const Message& message) { return touches(before, message.slice); });
}

/// Blocks of a segment, in lanes: builds all rounds of a collective of whole arrays.
class Builder {
 public:
  explicit Builder(const ScheduleRequest& request)
      : request_(request),
        schedule_{.algorithm = best_algorithm(request)},
        writer_(request_, schedule_.algorithm) {}

  Schedule build() {
    if (request_.collective == Collective::all_to_all)
      all_to_all();
    else if (request_.size == 1)
      alone();
    else
      in_segments();
    count_bytes();
    for (Lane& lane : schedule_.lanes)
      for (size_t i = 0; i < lane.size(); ++i) {
        if (i > 0) lane[i].early = may_land_during(lane[i - 1], lane[i]);
        mark_absorbed(i > 0 ? &lane[i - 1] : nullptr, lane[i]);
      }
    return std::move(schedule_);
  }

 private:
  /// Cut so that single messages have about `segment` numbers.
  int64_t segments() const {
    const bool in_blocks = request_.collective != Collective::broadcast &&
                           schedule_.algorithm != Algorithm::recursive_doubling &&
                           schedule_.algorithm != Algorithm::tree;
    const int64_t largest = in_blocks ? largest_block(request_) : request_.count;
    return std::max<int64_t>(1, largest / std::max<int64_t>(1, request_.segment));
  }

  void in_segments() {
    const int64_t count = segments();
    const int64_t lanes = std::min<int64_t>(most_lanes, count);
    const bool by_ring = schedule_.algorithm == Algorithm::ring;
    if (request_.collective == Collective::reduce_scatter && !by_ring)
      schedule_.scratch = request_.count;
    schedule_.lanes.resize(static_cast<size_t>(lanes));
    for (int64_t i = 0; i < lanes; ++i) {
      Lane& rounds = schedule_.lanes[static_cast<size_t>(i)];
      LaneWriter lane(rounds, schedule_.scratch);
      for (int64_t segment = i; segment < count; segment += lanes)
        write(lane, segment, count);
      const int64_t apart = by_ring && request_.collective == Collective::reduce_scatter
                                ? 3 * (largest_block(request_) / count + 2)
                                : 0;
      schedule_.scratch = std::max(schedule_.scratch + apart, lane.scratch_end());
    }
  }

  void write(LaneWriter& lane, int64_t segment, int64_t segments) {
    const int64_t begin = block_begin(request_.count, segment, segments);
    const Slice range{Array::output, begin,
                      block_begin(request_.count, segment + 1, segments) - begin};
    switch (request_.collective) {
      case Collective::all_reduce:
        return writer_.all_reduce(lane, range);
      case Collective::broadcast:
        return writer_.broadcast(lane, range);
      case Collective::all_gather:
        return all_gather(lane, segment_of_blocks(request_, Array::output, segment, segments));
      default:
        return reduce_scatter(lane, segment_of_blocks(request_, Array::input, segment, segments));
    }
  }

  int64_t own_block() const { return first_of_block(request_, request_.index); }

  void all_gather(LaneWriter& lane, const std::vector<Part>& parts) {
    const Part& own = parts[static_cast<size_t>(request_.index)];
    LaneWriter::copy(lane.next(), own, moved(own, Array::input, -own_block()));
    writer_.gather(lane, parts);
  }

  void reduce_scatter(LaneWriter& lane, const std::vector<Part>& parts) {
    const Part& own = parts[static_cast<size_t>(request_.index)];
    const Part output = moved(own, Array::output, -own_block());
    if (schedule_.algorithm == Algorithm::ring)
      return ring_reduce_from_input(lane, everybody(request_), parts, output.front(),
                                    schedule_.scratch);
    std::vector<Part> copies;
    Round& begin = lane.next();
    for (const Part& part : parts) {
      copies.push_back(moved(part, Array::scratch, 0));
      LaneWriter::copy(begin, copies.back(), part);
    }
    writer_.reduce(lane, copies);
    LaneWriter::copy(lane.next(), output, copies[static_cast<size_t>(request_.index)]);
  }

  void alone() {
    LaneWriter lane(schedule_.lanes.emplace_back(), 0);
    if (request_.collective == Collective::all_gather ||
        request_.collective == Collective::reduce_scatter)
      LaneWriter::copy(lane.next(), {{Array::output, 0, request_.count}},
                       {{Array::input, 0, request_.count}});
  }

  void all_to_all() {
    const Team team = everybody(request_);
    std::vector<Slice> out, in;
    int64_t sent = 0, received = 0;
    for (size_t i = 0; i < team.members.size(); ++i) {
      out.push_back({Array::input, sent, request_.sends[i]});
      in.push_back({Array::output, received, request_.receives[i]});
      sent += request_.sends[i];
      received += request_.receives[i];
    }
    const auto own = static_cast<size_t>(team.me);
    schedule_.lanes.resize(std::min<size_t>(most_lanes, team.members.size()));
    LaneWriter::copy(schedule_.lanes.front().emplace_back(), {in[own]}, {out[own]});
    for (int step = 1; step < team.size(); ++step) {
      Lane& lane = schedule_.lanes[static_cast<size_t>(step - 1) % schedule_.lanes.size()];
      Round& round = lane.emplace_back();
      const int to = team.member(team.me + step), from = team.member(team.me - step);
      LaneWriter::send(round, to, {out[static_cast<size_t>(to)]});
      LaneWriter::receive(round, from, {in[static_cast<size_t>(from)]});
    }
  }

  void count_bytes() {
    const auto node = [&](int member) {
      return request_.nodes.empty() ? 0 : request_.nodes[static_cast<size_t>(member)];
    };
    for (const Lane& lane : schedule_.lanes)
      for (const Round& round : lane)
        for (const Message& message : round.sends)
          (node(message.peer) == node(request_.index) ? schedule_.sent_in_node
                                                      : schedule_.sent_across) +=
              message.slice.count;
  }

  const ScheduleRequest& request_;
  Schedule schedule_;
  Writer writer_;
};

/// Up to here rounds cost more than bytes: measured between processes of one machine.
constexpr int64_t few_numbers = 4096;

Algorithm wanted(const ScheduleRequest& request, const Nodes& nodes) {
  if (request.algorithm != Algorithm::automatic && request.algorithm != Algorithm::native)
    return request.algorithm;
  if (request.count <= few_numbers) return Algorithm::recursive_doubling;
  return nodes.count() > 1 && nodes.most() > 1 ? Algorithm::hierarchical : Algorithm::ring;
}

}  // namespace

Algorithm best_algorithm(const ScheduleRequest& request) {
  if (request.collective == Collective::all_to_all) return Algorithm::pairwise;
  const Nodes nodes(request);
  const Algorithm algorithm = wanted(request, nodes);
  const bool flat = nodes.count() == 1 || nodes.most() == 1;
  if (algorithm == Algorithm::hierarchical && flat) return Algorithm::ring;
  if (request.collective == Collective::broadcast && algorithm == Algorithm::recursive_doubling)
    return Algorithm::tree;
  return algorithm;
}

Schedule make_schedule(const ScheduleRequest& request) {
  TPT_EXPECT(request.size >= 1 && request.index >= 0 && request.index < request.size);
  return Builder(request).build();
}

}  // namespace triplepoint::trainer
