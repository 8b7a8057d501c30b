// SPDX-License-Identifier: Apache-2.0
#include "trainer/comm/schedule_parts.h"

#include <algorithm>
#include <bit>

#include "triplepoint/base/result.h"

namespace triplepoint::trainer {
namespace {

const Part& at(const std::vector<Part>& parts, int place) {
  const int size = static_cast<int>(parts.size());
  return parts[static_cast<size_t>((place % size + size) % size)];
}

/// Those of the places [first, last), as far as there are any.
Part range(const std::vector<Part>& parts, int first, int last) {
  Part all;
  for (int i = first; i < std::min(last, static_cast<int>(parts.size())); ++i)
    append(all, at(parts, i));
  return all;
}

int power_of_two_within(int size) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
}

/// Recursive doubling runs among the first `core` members; each of the others has a partner there.
struct Core {
  explicit Core(const Team& team)
      : core(power_of_two_within(team.size())), extra(team.size() - core), me(team.me) {}
  int core, extra, me;
  bool outside() const { return me >= core; }
  bool has_guest() const { return me < extra; }
  int partner() const { return outside() ? me - core : me + core; }
  /// What `width` core members from the one at the base of `place` on hold, their guests' included.
  Part held(const std::vector<Part>& parts, int place, int width) const {
    const int base = place / width * width;
    Part all = range(parts, base, base + width);
    append(all, range(parts, core + base, core + base + width));
    return all;
  }
};

}  // namespace

int64_t count_of(const Part& part) {
  int64_t count = 0;
  for (const Slice& slice : part)
    count += slice.count;
  return count;
}

void append(Part& part, const Part& more) {
  for (const Slice& slice : more) {
    if (slice.count == 0) continue;
    if (!part.empty() && part.back().array == slice.array &&
        part.back().begin + part.back().count == slice.begin)
      part.back().count += slice.count;
    else
      part.push_back(slice);
  }
}

void LaneWriter::send(Round& round, int peer, const Part& part) {
  for (const Slice& slice : part)
    if (slice.count > 0) round.sends.push_back({peer, slice});
}

void LaneWriter::receive(Round& round, int peer, const Part& part) {
  for (const Slice& slice : part)
    if (slice.count > 0) round.receives.push_back({peer, slice});
}

void LaneWriter::copy(Round& round, const Part& to, const Part& from) {
  TPT_EXPECT(to.size() == from.size());
  for (size_t i = 0; i < to.size(); ++i)
    if (to[i].count > 0 && to[i] != from[i])
      round.then.push_back({LocalWork::Kind::copy, to[i], from[i], {}});
}

Slice LaneWriter::land(int64_t count) {
  // The half is fixed by the first message; what is larger goes behind everything.
  if (half_ < count) half_ = count, used_ = 0, landing_ = std::max(landing_, end_);
  const Slice slice{Array::scratch, landing_ + (used_++ % 2) * half_, count};
  end_ = std::max(end_, landing_ + 2 * half_);
  return slice;
}

void LaneWriter::receive_and_add(Round& round, int peer, const Part& into) {
  const int64_t count = count_of(into);
  if (count == 0) return;
  Slice place = land(count);
  for (const Slice& slice : into) {
    place.count = slice.count;
    round.receives.push_back({peer, place});
    round.then.push_back({LocalWork::Kind::combine, slice, place, slice});
    place.begin += slice.count;
  }
}

void ring_reduce(LaneWriter& lane, const Team& team, const std::vector<Part>& parts) {
  for (int step = 0; step + 1 < team.size(); ++step) {
    Round& round = lane.next();
    LaneWriter::send(round, team.member(team.me + 1), at(parts, team.me - 1 - step));
    lane.receive_and_add(round, team.member(team.me - 1), at(parts, team.me - 2 - step));
  }
}

void ring_gather(LaneWriter& lane, const Team& team, const std::vector<Part>& parts) {
  for (int step = 0; step + 1 < team.size(); ++step) {
    Round& round = lane.next();
    LaneWriter::send(round, team.member(team.me + 1), at(parts, team.me - step));
    LaneWriter::receive(round, team.member(team.me - 1), at(parts, team.me - 1 - step));
  }
}

void doubling_all_reduce(LaneWriter& lane, const Team& team, const Part& whole) {
  const Core core(team);
  const int partner = team.member(core.partner());
  if (core.outside()) {
    LaneWriter::send(lane.next(), partner, whole);
    return LaneWriter::receive(lane.next(), partner, whole);
  }
  if (core.has_guest()) lane.receive_and_add(lane.next(), partner, whole);
  for (int distance = 1; distance < core.core; distance *= 2) {
    Round& round = lane.next();
    const int peer = team.member(team.me ^ distance);
    LaneWriter::send(round, peer, whole);
    lane.receive_and_add(round, peer, whole);
  }
  if (core.has_guest()) LaneWriter::send(lane.next(), partner, whole);
}

void doubling_gather(LaneWriter& lane, const Team& team, const std::vector<Part>& parts) {
  const Core core(team);
  const int partner = team.member(core.partner());
  const auto others_for = [&](int guest) {
    Part others = range(parts, 0, guest);
    append(others, range(parts, guest + 1, team.size()));
    return others;
  };
  if (core.outside()) {
    LaneWriter::send(lane.next(), partner, at(parts, team.me));
    return LaneWriter::receive(lane.next(), partner, others_for(team.me));
  }
  if (core.has_guest()) LaneWriter::receive(lane.next(), partner, at(parts, core.partner()));
  for (int width = 1; width < core.core; width *= 2) {
    Round& round = lane.next();
    const int peer = team.me ^ width;
    LaneWriter::send(round, team.member(peer), core.held(parts, team.me, width));
    LaneWriter::receive(round, team.member(peer), core.held(parts, peer, width));
  }
  if (core.has_guest()) LaneWriter::send(lane.next(), partner, others_for(core.partner()));
}

void halving_reduce(LaneWriter& lane, const Team& team, const std::vector<Part>& parts) {
  const Core core(team);
  const int partner = team.member(core.partner());
  const Part whole = range(parts, 0, team.size());
  if (core.outside()) {
    LaneWriter::send(lane.next(), partner, whole);
    return LaneWriter::receive(lane.next(), partner, at(parts, team.me));
  }
  if (core.has_guest()) lane.receive_and_add(lane.next(), partner, whole);
  for (int width = core.core / 2; width >= 1; width /= 2) {
    Round& round = lane.next();
    const int peer = team.me ^ width;
    LaneWriter::send(round, team.member(peer), core.held(parts, peer, width));
    lane.receive_and_add(round, team.member(peer), core.held(parts, team.me, width));
  }
  if (core.has_guest()) LaneWriter::send(lane.next(), partner, at(parts, core.partner()));
}

void tree_reduce(LaneWriter& lane, const Team& team, const Part& whole) {
  for (int distance = 1; distance < team.size(); distance *= 2) {
    if ((team.me & distance) != 0)
      return LaneWriter::send(lane.next(), team.member(team.me - distance), whole);
    if (team.me + distance < team.size())
      lane.receive_and_add(lane.next(), team.member(team.me + distance), whole);
  }
}

void tree_broadcast(LaneWriter& lane, const Team& team, const Part& whole) {
  int distance = static_cast<int>(std::bit_ceil(static_cast<unsigned>(team.size())));
  for (; distance >= 1; distance /= 2) {
    if (team.me % (2 * distance) == distance)
      LaneWriter::receive(lane.next(), team.member(team.me - distance), whole);
    else if (team.me % (2 * distance) == 0 && team.me + distance < team.size())
      LaneWriter::send(lane.next(), team.member(team.me + distance), whole);
  }
}

void tree_gather(LaneWriter& lane, const Team& team, const std::vector<Part>& parts) {
  for (int distance = 1; distance < team.size(); distance *= 2) {
    if ((team.me & distance) != 0)
      return LaneWriter::send(lane.next(), team.member(team.me - distance),
                              range(parts, team.me, team.me + distance));
    if (team.me + distance < team.size())
      LaneWriter::receive(lane.next(), team.member(team.me + distance),
                          range(parts, team.me + distance, team.me + 2 * distance));
  }
}

void tree_scatter(LaneWriter& lane, const Team& team, const std::vector<Part>& parts) {
  int distance = static_cast<int>(std::bit_ceil(static_cast<unsigned>(team.size())));
  for (; distance >= 1; distance /= 2) {
    if (team.me % (2 * distance) == distance)
      LaneWriter::receive(lane.next(), team.member(team.me - distance),
                          range(parts, team.me, team.me + distance));
    else if (team.me % (2 * distance) == 0 && team.me + distance < team.size())
      LaneWriter::send(lane.next(), team.member(team.me + distance),
                       range(parts, team.me + distance, team.me + 2 * distance));
  }
}

void pairwise_reduce(LaneWriter& lane, const Team& team, const std::vector<Part>& parts) {
  for (int step = 1; step < team.size(); ++step) {
    Round& round = lane.next();
    LaneWriter::send(round, team.member(team.me + step), at(parts, team.me + step));
    lane.receive_and_add(round, team.member(team.me - step), at(parts, team.me));
  }
}

void pairwise_gather(LaneWriter& lane, const Team& team, const std::vector<Part>& parts) {
  for (int step = 1; step < team.size(); ++step) {
    Round& round = lane.next();
    LaneWriter::send(round, team.member(team.me + step), at(parts, team.me));
    LaneWriter::receive(round, team.member(team.me - step), at(parts, team.me - step));
  }
}

}  // namespace triplepoint::trainer
