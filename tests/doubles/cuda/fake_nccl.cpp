// SPDX-License-Identifier: Apache-2.0
// NCCL between threads of one process. A collective is done when all ranks of a communicator have
// come to it on their streams; a send, as the real one may, when it has been received. Ranks that
// disagree about a size or a type stop the program.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "tests/doubles/cuda/streams.h"
#include "trainer/cuda/api/driver.h"
#include "trainer/cuda/kernels/array.h"

using namespace triplepoint::trainer::cuda;
using triplepoint::trainer::cuda_double::Act;

#define TPT_EXPORTED extern "C" __attribute__((visibility("default")))

void give_to_stream(Stream stream, Act act);

namespace {

enum class Kind { all_reduce, all_gather, reduce_scatter, reduce, broadcast };

/// One rank's part of a collective.
struct Call {
  Kind kind;
  const void* from;
  void* to;
  size_t count;
  int type, operation, root;
};

struct Message {
  std::vector<float> numbers;
  int type;
};

[[noreturn]] void disagree(const char* what) {
  std::fprintf(stderr, "the double of NCCL: ranks disagree about %s\n", what);
  std::abort();
}

Array array_of(const void* data, int type) {
  return {const_cast<void*>(data), type == nccl_bf16 ? 1 : 0};
}

std::vector<float> read(const void* data, size_t count, int type) {
  const Array from = array_of(data, type);
  std::vector<float> numbers(count);
  for (size_t i = 0; i < count; ++i)
    numbers[i] = from[static_cast<int64_t>(i)];
  return numbers;
}

void write(const std::vector<float>& numbers, size_t first, size_t count, void* data, int type) {
  const Array to = array_of(data, type);
  for (size_t i = 0; i < count; ++i)
    to.put(static_cast<int64_t>(i), numbers[first + i]);
}

/// Ranks that have the same id.
class Group {
 public:
  explicit Group(int size) : size_(size) {}

  void join() {
    const std::lock_guard lock(mutex_);
    ++joined_;
    changed_.notify_all();
  }
  void wait_for_all() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return aborted_ || joined_ == size_; });
  }
  int size() const { return size_; }
  bool aborted() {
    const std::lock_guard lock(mutex_);
    return aborted_;
  }
  /// Ends all waiting; pending messages are lost.
  void abort() {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    changed_.notify_all();
  }

  void meet(uint64_t number, int rank, const Call& call) {
    std::unique_lock lock(mutex_);
    auto& calls = meetings_[number];
    calls.emplace(rank, call);
    if (static_cast<int>(calls.size()) == size_) {
      play(calls);
      meetings_.erase(number);
      ++over_[number];
      changed_.notify_all();
      return;
    }
    changed_.wait(lock, [&] { return aborted_ || over_.count(number) > 0; });
  }
  void send(int from, int to, Message message) {
    const std::lock_guard lock(mutex_);
    mail_[{from, to}].push_back(std::move(message));
    changed_.notify_all();
  }
  /// Until all that was sent there has been received.
  void wait_for_mail(int from, int to) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return aborted_ || mail_[{from, to}].empty(); });
  }
  Message receive(int from, int to) {
    std::unique_lock lock(mutex_);
    auto& mail = mail_[{from, to}];
    changed_.wait(lock, [&] { return aborted_ || !mail.empty(); });
    if (mail.empty()) return {};
    Message message = std::move(mail.front());
    mail.pop_front();
    changed_.notify_all();
    return message;
  }

 private:
  using Calls = std::map<int, Call>;

  static void check(const Calls& calls) {
    const Call& first = calls.begin()->second;
    for (const auto& [rank, call] : calls) {
      if (call.kind != first.kind) disagree("which collective comes next");
      if (call.count != first.count) disagree("how many numbers");
      if (call.type != first.type || call.operation != first.operation || call.root != first.root)
        disagree("type, reduction or root");
    }
  }
  /// Everything is read before anything is written: in place or not is the same.
  void play(const Calls& calls) const {
    check(calls);
    const Call& first = calls.begin()->second;
    std::vector<float> all;
    const bool gathers = first.kind == Kind::all_gather;
    const size_t length =
        first.kind == Kind::reduce_scatter ? first.count * calls.size() : first.count;
    for (const auto& [rank, call] : calls) {
      if (first.kind == Kind::broadcast && rank != first.root) continue;
      const std::vector<float> own = read(call.from, length, call.type);
      if (gathers || all.empty())
        all.insert(all.end(), own.begin(), own.end());
      else
        for (size_t i = 0; i < length; ++i)
          all[i] = call.operation == nccl_sum ? all[i] + own[i] : std::max(all[i], own[i]);
    }
    for (const auto& [rank, call] : calls) {
      if (first.kind == Kind::reduce && rank != first.root) continue;
      const bool scatters = first.kind == Kind::reduce_scatter;
      write(all, scatters ? static_cast<size_t>(rank) * call.count : 0,
            gathers ? all.size() : call.count, call.to, call.type);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int size_, joined_ = 0;
  bool aborted_ = false;
  std::map<uint64_t, Calls> meetings_;
  std::map<uint64_t, int> over_;
  std::map<std::pair<int, int>, std::deque<Message>> mail_;
};

struct Groups {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Group>> of;
  uint64_t next_id = 0;

  std::shared_ptr<Group> find(const NcclId& id, int size) {
    const std::lock_guard lock(mutex);
    auto& group = of[std::string(id.bytes, sizeof id.bytes)];
    if (group == nullptr) group = std::make_shared<Group>(size);
    if (group->size() != size) disagree("the size of a group");
    return group;
  }
};
Groups groups;

}  // namespace

namespace triplepoint::trainer::cuda {
struct NcclOf {
  std::shared_ptr<Group> group;
  int rank;
  uint64_t calls = 0;
};
}  // namespace triplepoint::trainer::cuda

namespace {

/// What stands between ncclGroupStart and ncclGroupEnd of this thread.
struct Batch {
  int depth = 0;
  std::vector<std::shared_ptr<Group>> joining;
  std::vector<Act> acts, afterwards;
  Stream stream = nullptr;
};
thread_local Batch batch;

int flush() {
  for (const auto& group : batch.joining)
    group->wait_for_all();
  if (!batch.acts.empty())
    give_to_stream(batch.stream, [acts = batch.acts, afterwards = batch.afterwards] {
      for (const Act& act : acts)
        act();
      for (const Act& act : afterwards)
        act();
    });
  batch = {};
  return 0;
}

int add(Stream stream, Act act, Act afterwards = {}) {
  batch.stream = stream;
  batch.acts.push_back(std::move(act));
  if (afterwards) batch.afterwards.push_back(std::move(afterwards));
  return batch.depth == 0 ? flush() : 0;
}

int collective(Nccl nccl, Stream stream, const Call& call) {
  return add(stream, [group = nccl->group, number = nccl->calls++, rank = nccl->rank, call] {
    group->meet(number, rank, call);
  });
}

}  // namespace

TPT_EXPORTED int ncclGetVersion(int* version) {
  *version = 22800;
  return 0;
}
TPT_EXPORTED const char* ncclGetErrorString(int) {
  return "an error";
}
TPT_EXPORTED int ncclGetUniqueId(NcclId* id) {
  const std::lock_guard lock(groups.mutex);
  *id = {};
  // Bytes of all values, since the id must survive its way.
  for (size_t i = 0; i < sizeof id->bytes; ++i)
    id->bytes[i] = static_cast<char>(2 * i + 1);
  const uint64_t number = ++groups.next_id;
  std::memcpy(id->bytes, &number, sizeof number);
  return 0;
}
TPT_EXPORTED int ncclCommInitRank(Nccl* nccl, int size, NcclId id, int rank) {
  *nccl = new NcclOf{groups.find(id, size), rank};
  (*nccl)->group->join();
  batch.joining.push_back((*nccl)->group);
  return batch.depth == 0 ? flush() : 0;
}
TPT_EXPORTED int ncclCommDestroy(Nccl nccl) {
  delete nccl;
  return 0;
}
TPT_EXPORTED int ncclCommAbort(Nccl nccl) {
  nccl->group->abort();
  delete nccl;
  return 0;
}
TPT_EXPORTED int ncclCommGetAsyncError(Nccl, int* state) {
  *state = 0;
  return 0;
}
TPT_EXPORTED int ncclGroupStart() {
  ++batch.depth;
  return 0;
}
TPT_EXPORTED int ncclGroupEnd() {
  return --batch.depth == 0 ? flush() : 0;
}
TPT_EXPORTED int ncclAllReduce(const void* from, void* to, size_t count, int type, int operation,
                               Nccl nccl, Stream stream) {
  return collective(nccl, stream, {Kind::all_reduce, from, to, count, type, operation, 0});
}
TPT_EXPORTED int ncclAllGather(const void* from, void* to, size_t count, int type, Nccl nccl,
                               Stream stream) {
  return collective(nccl, stream, {Kind::all_gather, from, to, count, type, 0, 0});
}
TPT_EXPORTED int ncclReduceScatter(const void* from, void* to, size_t count, int type,
                                   int operation, Nccl nccl, Stream stream) {
  return collective(nccl, stream, {Kind::reduce_scatter, from, to, count, type, operation, 0});
}
TPT_EXPORTED int ncclReduce(const void* from, void* to, size_t count, int type, int operation,
                            int root, Nccl nccl, Stream stream) {
  return collective(nccl, stream, {Kind::reduce, from, to, count, type, operation, root});
}
TPT_EXPORTED int ncclBroadcast(const void* from, void* to, size_t count, int type, int root,
                               Nccl nccl, Stream stream) {
  return collective(nccl, stream, {Kind::broadcast, from, to, count, type, 0, root});
}
TPT_EXPORTED int ncclSend(const void* from, size_t count, int type, int peer, Nccl nccl,
                          Stream stream) {
  const auto group = nccl->group;
  const int rank = nccl->rank;
  return add(
      stream,
      [=] {
        group->send(rank, peer, {read(from, count, type), type});
      },
      [=] { group->wait_for_mail(rank, peer); });
}
TPT_EXPORTED int ncclRecv(void* to, size_t count, int type, int peer, Nccl nccl, Stream stream) {
  return add(stream, [group = nccl->group, rank = nccl->rank, to, count, type, peer] {
    const Message message = group->receive(peer, rank);
    if (group->aborted()) return;
    if (message.numbers.size() != count || message.type != type) disagree("a message");
    write(message.numbers, 0, count, to, type);
  });
}
