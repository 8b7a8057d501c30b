// SPDX-License-Identifier: Apache-2.0
#include "trainer/comm/mpi_session.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

// Only the C functions: the header warns about its C++ ones.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1

#include <fmt/format.h>
#include <mpi.h>

#include "trainer/comm/transport.h"

namespace triplepoint::trainer {
namespace {

constexpr int abort_tag = 1 << 17;  // above all channels

/// Requests by ticket.
class Requests {
 public:
  Transport::Ticket add(MPI_Request request) {
    if (free_.empty()) {
      free_.push_back(requests_.size());
      requests_.emplace_back();
    }
    const size_t place = free_.back();
    free_.pop_back();
    requests_[place] = request;
    return place;
  }
  bool test(Transport::Ticket ticket) {
    int flag = 0;
    MPI_Test(&requests_[ticket], &flag, MPI_STATUS_IGNORE);
    if (flag != 0) free_.push_back(ticket);
    return flag != 0;
  }

 private:
  std::vector<MPI_Request> requests_;
  std::vector<size_t> free_;
};

// NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker): Requests keeps them and waits for them.
class MpiCollectives final : public NativeCollectives {
 public:
  explicit MpiCollectives(Requests& requests) : requests_(requests) {}

  int join(std::span<const int> ranks, int channel) override {
    MPI_Group everybody = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
    MPI_Comm_group(MPI_COMM_WORLD, &everybody);
    MPI_Group_incl(everybody, static_cast<int>(ranks.size()), ranks.data(), &members);
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Comm_create_group(MPI_COMM_WORLD, members, channel, &made);
    MPI_Group_free(&members);
    MPI_Group_free(&everybody);
    groups_.push_back({made, {}, {}});
    return static_cast<int>(groups_.size()) - 1;
  }

  Ticket all_reduce(int group, std::span<float> data, bool maximum) override {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT,
                   maximum ? MPI_MAX : MPI_SUM, at(group), &request);
    return requests_.add(request);
  }

  Ticket all_gather(int group, Numbers mine, std::span<float> whole, Counts counts) override {
    MPI_Request request = MPI_REQUEST_NULL;
    std::vector<int>& places = groups_[static_cast<size_t>(group)].places;
    places = begins(counts);
    int me = 0;
    MPI_Comm_rank(at(group), &me);
    const bool there = mine.data() == whole.data() + places[static_cast<size_t>(me)];
    MPI_Iallgatherv(there ? MPI_IN_PLACE : mine.data(), static_cast<int>(mine.size()), MPI_FLOAT,
                    whole.data(), counts.data(), places.data(), MPI_FLOAT, at(group), &request);
    return requests_.add(request);
  }

  Ticket reduce_scatter(int group, Numbers whole, std::span<float> mine, Counts counts,
                        bool maximum) override {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ireduce_scatter(whole.data(), mine.data(), counts.data(), MPI_FLOAT,
                        maximum ? MPI_MAX : MPI_SUM, at(group), &request);
    return requests_.add(request);
  }

  Ticket all_to_all(int group, Numbers send, Counts send_counts, std::span<float> receive,
                    Counts receive_counts) override {
    MPI_Request request = MPI_REQUEST_NULL;
    Group& its = groups_[static_cast<size_t>(group)];
    its.places = begins(send_counts);
    its.receive_places = begins(receive_counts);
    MPI_Ialltoallv(send.data(), send_counts.data(), its.places.data(), MPI_FLOAT, receive.data(),
                   receive_counts.data(), its.receive_places.data(), MPI_FLOAT, its.communicator,
                   &request);
    return requests_.add(request);
  }

  Ticket broadcast(int group, std::span<float> data, int root) override {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibcast(data.data(), static_cast<int>(data.size()), MPI_FLOAT, root, at(group), &request);
    return requests_.add(request);
  }

 private:
  /// MPI reads the places until the operation is done; one of a group runs at a time.
  struct Group {
    MPI_Comm communicator;
    std::vector<int> places, receive_places;
  };

  MPI_Comm at(int group) const { return groups_[static_cast<size_t>(group)].communicator; }
  static std::vector<int> begins(Counts counts) {
    std::vector<int> places;
    places.reserve(counts.size());
    int place = 0;
    for (const int count : counts)
      places.push_back(place), place += count;
    return places;
  }

  Requests& requests_;
  std::deque<Group> groups_;  // its members stay where they are
};

class MpiTransport final : public Transport {
 public:
  MpiTransport() : collectives_(requests_) {
    MPI_Comm_dup(MPI_COMM_WORLD, &world_);
    MPI_Comm_rank(world_, &rank_);
    MPI_Comm_size(world_, &size_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Ticket send(int to, int channel, std::span<const std::byte> bytes) override {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, channel, world_,
              &request);
    return requests_.add(request);
  }

  Ticket receive(int from, int channel, std::span<std::byte> bytes) override {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, from, channel, world_,
              &request);
    return requests_.add(request);
  }

  bool done(Ticket ticket) override {
    if (requests_.test(ticket)) return true;
    constexpr uint64_t looks_per_abort_check = 1024;
    if (++looks_ % looks_per_abort_check == 0) look_for_abort();
    return false;
  }

  void abort(const char* why) override {
    reason_ = why;
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Isend(reason_.data(), static_cast<int>(reason_.size()), MPI_CHAR, peer, abort_tag, world_,
                &request);
      MPI_Request_free(&request);
    }
  }

  NativeCollectives* native() override { return &collectives_; }

 private:
  void look_for_abort() {
    int flag = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, abort_tag, world_, &flag, &status);
    if (flag == 0) return;
    int size = 0;
    MPI_Get_count(&status, MPI_CHAR, &size);
    std::string why(static_cast<size_t>(size), ' ');
    MPI_Recv(why.data(), size, MPI_CHAR, status.MPI_SOURCE, abort_tag, world_, MPI_STATUS_IGNORE);
    throw CommError(why);
  }

  MPI_Comm world_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  Requests requests_;
  MpiCollectives collectives_;
  uint64_t looks_ = 0;
  std::string reason_;
};
// NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker)

/// MPI's point-to-point messages, and its collectives. MPI has been initialized. No header of MPI
/// is needed to use it.
std::unique_ptr<Transport> mpi_transport() {
  return std::make_unique<MpiTransport>();
}

class Session final : public MpiSession {
 public:
  Session() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  Session(Session&&) = delete;
  Session& operator=(Session&&) = delete;
  ~Session() override { MPI_Finalize(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Result<std::unique_ptr<Transport>> transport(Carrier carrier) override {
    if (carrier == Carrier::mpi) return mpi_transport();
    const bool one_machine = ranks_here() == size_;
    if (carrier == Carrier::automatic && !one_machine) return mpi_transport();
    if (!one_machine)
      return error(
          "the ranks are on several machines (memory cannot be shared between them); let "
          "MPI carry the messages");
    return shared();
  }

  void end_all(int code) override {
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }

 private:
  int ranks_here() const {
    MPI_Comm here = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &here);
    int count = 0;
    MPI_Comm_size(here, &count);
    MPI_Comm_free(&here);
    int least = 0;
    MPI_Allreduce(&count, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return least;
  }

  /// Rank 0 makes it and says its name; when all have it, the name goes.
  Result<std::unique_ptr<Transport>> shared() {
    std::array<char, 128> name{};
    Result<std::shared_ptr<SharedSegment>> segment = error("not made");
    if (rank_ == 0) {
      segment = SharedSegment::create(size_);
      if (segment) (*segment)->name().copy(name.data(), name.size() - 1);
    }
    MPI_Bcast(name.data(), static_cast<int>(name.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank_ != 0 && name[0] != 0) segment = SharedSegment::open(name.data(), size_);
    const int mine = segment ? 1 : 0;
    int all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank_ == 0 && segment) (*segment)->unlink();
    if (!segment) return tl::unexpected(segment.error());
    if (all == 0) return error("another rank has no shared memory (see its message)");
    return shared_transport(*segment, rank_);
  }

  int rank_ = 0, size_ = 1;
};

}  // namespace

Result<std::unique_ptr<MpiSession>> MpiSession::open() {
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS)
    return error("MPI could not be initialized; start this program by mpirun");
  if (provided < MPI_THREAD_SERIALIZED)
    return error("this MPI cannot be called from several threads (not even in turn); use another");
  return std::make_unique<Session>();
}

bool MpiSession::launched() {
  constexpr std::array words = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"};
  for (const char* word : words)
    if (std::getenv(word) != nullptr) return true;
  return false;
}

}  // namespace triplepoint::trainer
