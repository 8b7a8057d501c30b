// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "trainer/comm/schedule_parts.h"

// One segment of a collective in each of its algorithms; part of schedule.cpp.
namespace triplepoint::trainer {

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

}  // namespace triplepoint::trainer
