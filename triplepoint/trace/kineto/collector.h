// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "triplepoint/trace/kineto/event.h"
#include "triplepoint/trace/trace.h"

namespace triplepoint::trace::kineto {

/// Numbers for (name, salt): nothing is allocated unless the name is new.
class NameTable {
 public:
  /// The number given to this pair before; -1 if it is new: then give() it one.
  int32_t find(std::string_view name, uint32_t salt) const;
  void give(std::string_view name, uint32_t salt, int32_t number);
  size_t bytes() const { return bytes_; }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };
  using Numbers = std::unordered_map<std::string, int32_t, Hash, std::equal_to<>>;
  std::unordered_map<uint32_t, Numbers> of_salt_;  // a handful
  size_t bytes_ = 0;
};

/// What an operator or a kernel says of its collective, with names resolved.
struct CollectiveCall {
  std::optional<spec::Collective> collective;
  int32_t communicator = -1;
  int64_t sequence = -1, in_elements = -1, out_elements = -1;
  int element_bytes = 0;
  bool empty() const { return !collective && communicator < 0 && in_elements < 0; }
};

/// An operator around the launch of a collective, for kernels that say nothing themselves.
struct CollectiveOp {
  int32_t lane = -1;
  int64_t begin = 0, end = 0, external_id = -1;
  CollectiveCall call;
};

/// What a launch knows of the kernel it shares its correlation with, in its process.
struct Launch {
  int32_t lane = -1, process = 0;
  int64_t correlation = -1, external_id = -1, begin = 0, blocks = -1, threads_per_block = -1;
};

/// Turns events into a timeline, one at a time.
class Collector {
 public:
  Collector(const ReadOptions&, Skipped&);

  /// False if the memory limit leaves no room, not even without host spans.
  bool add(const Event&);
  /// Reserves space for `spans` spans in total.
  void expect(size_t spans);
  size_t size() const { return timeline_.spans.size(); }
  /// Events with a length whose category means nothing to us.
  int64_t unknown() const { return unknown_; }

  /// All that was collected, linked: times as in the file, unsorted. Ranks are the processes of the
  /// file: 0 where it is of one.
  run::Timeline take();
  /// With ReadOptions::shapes; begins as in the file.
  std::vector<OperatorCall> take_operators() { return std::move(operators_); }
  /// More than one: files that other tools merged. By the ends of their names, else by their order.
  const std::vector<int32_t>& ranks_of_processes() const { return process_ranks_; }

 private:
  // Categories share types by what they become.
  enum class Role : uint8_t { host, step, kernel, copy, device };

  /// Who writes a lane: a process whose id may be a text that begins with its rank ("[TP01] 100").
  struct Owner {
    std::string prefix;  // of the id, before its number
    int64_t number = 0;  // of a device: how far its process id lies above its device number
    bool device = false, launches = false;
    std::optional<int64_t> last_begin;  // ns, of what was read last
  };
  Owner owner_of(const Event&, bool device) const;
  std::vector<int32_t> processes_of_lanes();

  /// A begin without its end yet, of one thread or stream; views into what it keeps itself.
  struct Open {
    std::string name, process, thread, collective;
    Event event;
    size_t bytes() const {
      return 2 * sizeof(Open) + name.size() + process.size() + thread.size() + collective.size();
    }
  };
  bool add_pair(const Event&);

  int32_t type_of(const Event&, const CollectiveCall&);
  int32_t new_type(const Event&, Role, const CollectiveCall&);
  int32_t lane_of(const Event&);
  int32_t communicator_of(const CollectiveArguments&);
  CollectiveCall call_of(const Event&);
  void name_lane(const Event&);
  void remember(const Event&, int32_t lane);
  void keep_operator(const Event&, int32_t lane);
  bool is_full() const;
  bool make_room();
  void leave_out(HostSpans kept);
  bool keeps(const Event&) const;
  bool has_sound_time(const Event&);
  void add_span(const Event&, int32_t lane, bool is_timed);

  run::Timeline timeline_;
  HostSpans host_;
  bool shapes_;
  bool links_ = true;  // whether launches are remembered
  size_t most_bytes_;
  int64_t unknown_ = 0;
  size_t text_bytes_ = 0;  // of names of lanes and communicators, with what holds them
  Skipped& skipped_;
  NameTable names_;
  std::unordered_map<uint64_t, int32_t> lanes_;
  uint64_t last_lane_key_ = 0;
  int32_t last_lane_ = -1;
  std::vector<Owner> owners_;                             // of each lane
  std::unordered_map<uint64_t, std::vector<Open>> open_;  // begun, by thread
  size_t open_bytes_ = 0;
  std::vector<int32_t> process_ranks_;
  std::unordered_map<std::string, int32_t> communicators_;
  std::vector<CollectiveOp> ops_;
  std::vector<OperatorCall> operators_;
  std::vector<Launch> launches_;
  std::vector<uint8_t> levels_;  // of each type: which HostSpans keeps it
};

/// What a call says, onto its kernel.
void apply(const CollectiveCall&, run::Span&, run::SpanDetail&);

/// Fills in what kernels of collectives do not say: by the operator that launched them. What is
/// then still unknown is numbered: communicators by their streams, sequences by order. `process`:
/// of each lane.
void link_collectives(run::Timeline&, std::vector<CollectiveOp>, const std::vector<Launch>&,
                      const std::vector<int32_t>& process);

/// AMD's launches know the grid, their kernels do not.
void link_grids(run::Timeline&, const std::vector<Launch>&, const std::vector<int32_t>& process);

}  // namespace triplepoint::trace::kineto
