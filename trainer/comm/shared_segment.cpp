// SPDX-License-Identifier: Apache-2.0
#include "trainer/comm/shared_segment.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace triplepoint::trainer {
namespace {

uint32_t* word(std::atomic<uint32_t>& atomic) {
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
  return reinterpret_cast<uint32_t*>(&atomic);
}

}  // namespace

size_t SharedSegment::bytes_for(int ranks) {
  const auto n = static_cast<size_t>(ranks);
  return sizeof(Head) + n * sizeof(WakeSignal) + n * n * (sizeof(Ring) + sizeof(SwapBuffer));
}

Result<std::shared_ptr<SharedSegment>> SharedSegment::map(const std::string& name, int ranks,
                                                          int flags) {
  const int file = shm_open(name.c_str(), flags | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0)
    return error(
        fmt::format("shared memory {} cannot be opened ({}); is /dev/shm there and "
                    "writable?",
                    name, std::strerror(errno)));
  const size_t bytes = bytes_for(ranks);
  if ((flags & O_CREAT) != 0 && ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    close(file);
    shm_unlink(name.c_str());
    return error(fmt::format("no shared memory of {} bytes ({}); make room in /dev/shm", bytes,
                             std::strerror(errno)));
  }
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED)
    return error(fmt::format("shared memory {} cannot be mapped ({}); make room in /dev/shm", name,
                             std::strerror(errno)));
  return std::shared_ptr<SharedSegment>(
      new SharedSegment(name, ranks, static_cast<std::byte*>(memory)));
}

Result<std::shared_ptr<SharedSegment>> SharedSegment::create(int ranks) {
  static std::atomic<int> made{0};
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  auto segment = map(fmt::format("/triplepoint-{}-{}-{}", getpid(), made++, now.tv_nsec), ranks,
                     O_CREAT | O_EXCL);
  if (segment) (*segment)->linked_ = true;
  return segment;
}

Result<std::shared_ptr<SharedSegment>> SharedSegment::open(const std::string& name, int ranks) {
  return map(name, ranks, 0);
}

SharedSegment::~SharedSegment() {
  unlink();
  munmap(memory_, bytes_for(ranks_));
}

void SharedSegment::unlink() {
  if (linked_) shm_unlink(name_.c_str());
  linked_ = false;
}

void SharedSegment::wake(int rank) {
  WakeSignal& its = wake_signal(rank);
  its.count.fetch_add(1, std::memory_order_seq_cst);
  if (its.sleepers.load(std::memory_order_seq_cst) != 0)
    syscall(SYS_futex, word(its.count), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void SharedSegment::sleep(int rank, uint32_t seen, std::chrono::nanoseconds longest) {
  WakeSignal& mine = wake_signal(rank);
  const timespec most{0, longest.count()};
  mine.sleepers.fetch_add(1, std::memory_order_seq_cst);
  if (mine.count.load(std::memory_order_seq_cst) == seen)
    syscall(SYS_futex, word(mine.count), FUTEX_WAIT, seen, &most, nullptr, 0);
  mine.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

void SharedSegment::abort(const std::string& why) {
  uint32_t nobody = 0;
  if (head().aborted.compare_exchange_strong(nobody, 1)) {
    const size_t length = std::min(why.size(), head().reason.size() - 1);
    std::copy_n(why.data(), length, head().reason.data());
    head().reason[length] = 0;
    head().aborted.store(2, std::memory_order_release);
  }
  for (int rank = 0; rank < ranks_; ++rank)
    wake(rank);
}

std::string SharedSegment::reason() {
  while (head().aborted.load(std::memory_order_acquire) == 1)
    std::this_thread::yield();
  return head().reason.data();
}

}  // namespace triplepoint::trainer
