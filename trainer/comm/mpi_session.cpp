// SPDX-License-Identifier: Apache-2.0
#include "trainer/comm/mpi_session.h"

#include <array>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <thread>
#include <vector>

// Only the C functions: the header warns about its C++ ones.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1

#include <mpi.h>

namespace triplepoint::trainer {
namespace {

MPI_Op operation_of(Reduction reduction) {
  return reduction == Reduction::maximum ? MPI_MAX : MPI_SUM;
}

int in_int(int64_t count) {
  TPT_EXPECT(count <= std::numeric_limits<int>::max());
  return static_cast<int>(count);
}

/// Blocks of an array as MPI takes them, which reads them until an operation is done.
struct Blocks {
  Blocks() = default;
  Blocks(int64_t count, int64_t ranks) {
    for (int64_t i = 0; i < ranks; ++i) {
      counts.push_back(in_int(block_of(count, i, ranks).count));
      places.push_back(in_int(block_of(count, i, ranks).first));
    }
  }
  std::vector<int> counts, places;
};

// NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker): done() waits for the request.
class MpiTransfer final : public Transfer {
 public:
  explicit MpiTransfer(int peer = -1) : peer_(peer) {}
  explicit MpiTransfer(Blocks blocks) : blocks_(std::move(blocks)) {}

  bool done() override {
    int flag = 1;
    if (request_ != MPI_REQUEST_NULL) MPI_Test(&request_, &flag, MPI_STATUS_IGNORE);
    return flag != 0;
  }
  int waits_for() const override { return peer_; }

  MPI_Request* request() { return &request_; }
  const Blocks& blocks() const { return blocks_; }

 private:
  MPI_Request request_ = MPI_REQUEST_NULL;
  Blocks blocks_;
  int peer_ = -1;
};

/// Its communicator is not freed: it lasts as long as the session, and a rank that fails must not
/// wait for others here.
class MpiGroup final : public GroupTransport {
 public:
  MpiGroup(const std::vector<int>& ranks, int number) : ranks_(ranks) {
    MPI_Group everybody = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
    MPI_Comm_group(MPI_COMM_WORLD, &everybody);
    MPI_Group_incl(everybody, static_cast<int>(ranks.size()), ranks.data(), &members);
    MPI_Comm_create_group(MPI_COMM_WORLD, members, number, &group_);
    MPI_Group_free(&members);
    MPI_Group_free(&everybody);
    MPI_Comm_rank(group_, &index_);
  }

  Started all_reduce(float* data, int64_t count, Reduction reduction) override {
    auto transfer = std::make_unique<MpiTransfer>();
    MPI_Iallreduce(MPI_IN_PLACE, data, in_int(count), MPI_FLOAT, operation_of(reduction), group_,
                   transfer->request());
    return transfer;
  }

  Started all_gather(const float* mine, float* whole, int64_t count) override {
    auto transfer = std::make_unique<MpiTransfer>(Blocks(count, size()));
    const Blocks& blocks = transfer->blocks();
    const auto me = static_cast<size_t>(index_);
    const bool there = mine == whole + blocks.places[me];
    MPI_Iallgatherv(there ? MPI_IN_PLACE : mine, blocks.counts[me], MPI_FLOAT, whole,
                    blocks.counts.data(), blocks.places.data(), MPI_FLOAT, group_,
                    transfer->request());
    return transfer;
  }

  Started reduce_scatter(const float* whole, float* mine, int64_t count,
                         Reduction reduction) override {
    auto transfer = std::make_unique<MpiTransfer>(Blocks(count, size()));
    MPI_Ireduce_scatter(whole, mine, transfer->blocks().counts.data(), MPI_FLOAT,
                        operation_of(reduction), group_, transfer->request());
    return transfer;
  }

  Started send(const float* data, int64_t count, int to, int channel) override {
    auto transfer = std::make_unique<MpiTransfer>(ranks_[static_cast<size_t>(to)]);
    MPI_Isend(data, in_int(count), MPI_FLOAT, to, channel, group_, transfer->request());
    return transfer;
  }

  Started receive(float* data, int64_t count, int from, int channel) override {
    auto transfer = std::make_unique<MpiTransfer>(ranks_[static_cast<size_t>(from)]);
    MPI_Irecv(data, in_int(count), MPI_FLOAT, from, channel, group_, transfer->request());
    return transfer;
  }

 private:
  int64_t size() const { return static_cast<int64_t>(ranks_.size()); }

  std::vector<int> ranks_;
  MPI_Comm group_ = MPI_COMM_NULL;
  int index_ = 0;
};
// NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker)

class MpiTransport final : public Transport {
 public:
  MpiTransport() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<GroupTransport> group(const std::vector<int>& ranks, int number) override {
    return std::make_unique<MpiGroup>(ranks, number);
  }
  void abort(const char* /*why*/) override {}
  void rest(int looks) override {
    constexpr int patient_looks = 64;
    if (looks < patient_looks) return std::this_thread::yield();
    // Waiting must not cost those who compute on the same core much: a look takes some
    // microseconds.
    std::this_thread::sleep_for(std::chrono::microseconds(looks < 2 * patient_looks ? 20 : 100));
  }

 private:
  int rank_ = 0, size_ = 1;
};

class Session final : public MpiSession {
 public:
  Session() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() override { MPI_Finalize(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<Transport> transport() override { return std::make_unique<MpiTransport>(); }
  void end_all(int code) override {
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }

 private:
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
