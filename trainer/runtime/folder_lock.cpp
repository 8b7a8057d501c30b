// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/folder_lock.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

namespace triplepoint::trainer {
namespace {

/// "process 4711 on node1", as the owner has written it.
std::string owner_in(int file) {
  std::array<char, 256> text{};
  const ssize_t size = ::pread(file, text.data(), text.size() - 1, 0);
  return size > 0 ? std::string(text.data(), static_cast<size_t>(size)) : "another process";
}

void write_owner(int file) {
  std::array<char, 128> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::string owner = fmt::format("process {} on {}", ::getpid(), host.data());
  // Only for the sentence that another training prints: the lock holds without it.
  if (::ftruncate(file, 0) == 0 && ::pwrite(file, owner.data(), owner.size(), 0) < 0) return;
}

}  // namespace

Result<FolderLock> FolderLock::take(const Path& folder) {
  TPT_TRY(make_folder(folder));
  const Path path = folder / "lock";
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0)
    return error(
        fmt::format("{}: cannot be opened ({}); name a folder for --checkpoint that can be written",
                    path.string(), std::strerror(errno)));
  FolderLock lock(file);
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    const int why = errno;
    if (why == EWOULDBLOCK)
      return error(
          fmt::format("{}: another training writes its checkpoints there ({}); wait for its end, "
                      "or name another folder",
                      folder.string(), owner_in(file)));
    return error(fmt::format("{}: cannot be locked ({}); name a folder of a file system with locks",
                             path.string(), std::strerror(why)));
  }
  write_owner(file);
  return lock;
}

FolderLock::~FolderLock() {
  if (file_ >= 0) ::close(file_);
}

}  // namespace triplepoint::trainer
