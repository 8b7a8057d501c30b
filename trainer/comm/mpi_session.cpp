// SPDX-License-Identifier: Apache-2.0
#include "trainer/comm/mpi_session.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

#include <fmt/format.h>
// Only the C functions: the header warns about its C++ ones.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include "trainer/comm/mpi_transport.h"
#include "trainer/comm/shared_transport.h"

namespace triplepoint::trainer {
namespace {

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
    if (all == 0) return error("another rank has no shared memory (see what it says)");
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
