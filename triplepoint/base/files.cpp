// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "triplepoint/base/quoting.h"

namespace triplepoint {
namespace {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  /// Closing is when some file systems report a full disk.
  bool close() { return ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

std::string reason(int code) {
  return std::generic_category().message(code);
}

std::string way_out(std::string_view verb, int code) {
  const bool looks = verb == "read" || verb == "list";
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return "free some space or write to another folder";
    case EACCES:
    case EPERM:
    case EROFS:
      return looks ? "change its permissions, or run as a user who may read it"
                   : "change its permissions or write to another folder";
    case ENOENT:
    case ENOTDIR:
      return "check the path";
    default:
      return "check the path and the disk";
  }
}

tl::unexpected<Error> cannot(const char* verb, const Path& path, int code) {
  return error("cannot {} {} ({}); {}", verb, path.string(), reason(code), way_out(verb, code));
}

constexpr std::size_t most_bytes = std::size_t{1} << 30;

Result<std::string> read_all(const Descriptor& file, const Path& path) {
  std::string content;
  std::array<char, 65536> block;
  while (true) {
    const ssize_t count = ::read(file.number(), block.data(), block.size());
    if (count == 0) return content;
    if (count < 0 && errno != EINTR) return cannot("read", path, errno);
    if (count > 0) content.append(block.data(), static_cast<std::size_t>(count));
    if (content.size() > most_bytes)
      return error(
          "{} is larger than 1 GiB (such a file is not read whole); give the "
          "file that was meant, or a smaller one",
          path.string());
  }
}

/// Writes and makes sure that it has reached the disk; the error code if not.
std::optional<int> write_all(Descriptor& file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t count = ::write(file.number(), content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    content.remove_prefix(static_cast<std::size_t>(count));
  }
  if (::fsync(file.number()) != 0 && errno != EINVAL) return errno;
  if (!file.close()) return errno;
  return std::nullopt;
}

/// Renaming gives the target a new owner of its content; its permissions are kept.
mode_t permissions_for(const Path& path) {
  struct stat status {};
  constexpr mode_t default_mode = 0644;
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777U : default_mode;
}

/// Devices, pipes and sockets, also by a link like /dev/stdout: nothing can be renamed onto them.
bool is_stream(const Path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

/// Where a link points, so that the link stays one.
Path target_of(const Path& path) {
  std::error_code failed;
  if (!std::filesystem::is_symlink(path, failed)) return path;
  const Path target = std::filesystem::weakly_canonical(path, failed);
  return failed ? path : target;
}

Result<void> write_stream(const Path& path, std::string_view content) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC));
  if (!file.is_open()) return cannot("write", path, errno);
  if (const std::optional<int> problem = write_all(file, content))
    return cannot("write", path, *problem);
  return {};
}

}  // namespace

bool path_exists(const Path& path) {
  std::error_code failed;
  return std::filesystem::exists(path, failed);
}

bool is_folder(const Path& path) {
  std::error_code failed;
  return std::filesystem::is_directory(path, failed);
}

Path absolute_path(const Path& path) {
  std::error_code failed;
  const Path absolute = std::filesystem::absolute(path, failed);
  return failed ? path : absolute;
}

Path by_own_name(const Path& folder) {
  Path own = folder.lexically_normal();
  if (!own.has_filename()) own = own.parent_path();
  if (own.filename() != "." && own.filename() != ".." && !own.empty()) return own;
  own = absolute_path(folder).lexically_normal();
  return own.has_filename() ? own : own.parent_path();
}

Result<void> require_other_file(const Path& output, const std::vector<std::string>& inputs) {
  std::error_code failed;
  for (const std::string& input : inputs)
    if (std::filesystem::equivalent(output, input, failed) && !is_stream(output))
      return error(
          "{} is read and would be written (its content would be lost); name another output",
          output.string());
  return {};
}

Result<std::string> read_file(const Path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return cannot("read", path, errno);
  auto text = read_all(file, path);
  // A byte order mark, which editors on Windows write, is no part of any format.
  if (text && text->starts_with("\xef\xbb\xbf")) text->erase(0, 3);
  return text;
}

Result<void> write_file_atomically(const Path& path, std::string_view content) {
  if (is_stream(path)) return write_stream(path, content);
  const Path target = target_of(path);
  const Path temporary = fmt::format("{}.{}.tmp", target.string(), ::getpid());
  const mode_t permissions = permissions_for(target);
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, permissions));
  if (!file.is_open()) return cannot("write", path, errno);
  std::optional<int> problem = write_all(file, content);
  if (!problem && ::rename(temporary.c_str(), target.c_str()) != 0) problem = errno;
  if (!problem) return {};
  ::unlink(temporary.c_str());
  return cannot("write", path, *problem);
}

Result<void> make_folder(const Path& folder) {
  const std::string name = folder.string();
  if (comment_text(name) != name)
    return error(
        "cannot make the folder \"{}\" (its name has a line break or another control "
        "character); choose another name",
        comment_text(name));
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (!problem && !std::filesystem::is_directory(folder, problem))
    problem = std::make_error_code(std::errc::not_a_directory);
  if (problem) return cannot("make the folder", folder, problem.value());
  return {};
}

Result<std::vector<Path>> list_files(const Path& folder, std::string_view extension) {
  std::error_code problem;
  std::vector<Path> files;
  Path at = folder;
  std::filesystem::recursive_directory_iterator entry(folder, problem);
  for (; !problem && entry != std::filesystem::recursive_directory_iterator();
       entry.increment(problem)) {
    at = entry->path();
    if (entry->is_regular_file(problem) &&
        (extension.empty() || entry->path().extension() == extension))
      files.push_back(at);
  }
  // A subfolder that cannot be entered is the entry before the failure.
  if (problem) return cannot("list", is_folder(at) ? at : folder, problem.value());
  std::ranges::sort(files);
  return files;
}

}  // namespace triplepoint
