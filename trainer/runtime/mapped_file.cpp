// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/mapped_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace triplepoint::trainer {
namespace {

tl::unexpected<Error> cannot_read(const std::string& path, const char* why) {
  return error(
      fmt::format("{}: cannot be read ({}); name a file that exists and may be read", path, why));
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return cannot_read(path, std::strerror(errno));
  struct stat about {};
  const bool is_file = ::fstat(file, &about) == 0 && S_ISREG(about.st_mode);
  const auto size = static_cast<size_t>(is_file ? about.st_size : 0);
  void* start = size > 0 ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
  const int why = errno;
  ::close(file);
  if (!is_file) return cannot_read(path, "it is no plain file");
  if (size == 0) return cannot_read(path, "it is empty");
  if (start == MAP_FAILED) return cannot_read(path, std::strerror(why));
  return MappedFile({static_cast<const std::byte*>(start), size});
}

MappedFile::~MappedFile() {
  // munmap takes what mmap gave, which had no const.
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace triplepoint::trainer
