// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/recorder/node_gathering.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "triplepoint/base/text.h"

namespace triplepoint::telemetry {

namespace {

namespace fs = std::filesystem;

/// Whatever the launcher calls the job, as a file name.
std::string file_name_of(std::string text) {
  for (char& c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '-') c = '_';
  return text;
}

std::string prefix() {
  return fmt::format("triplepoint-{}-", geteuid());
}

/// The launch and the node; a process without launcher has its own name.
std::string name_of(const LaunchEnvironment& environment, int64_t parent) {
  if (!environment.rank) return fmt::format("{}alone-{}", prefix(), getpid());
  const std::string launch =
      environment.job.empty() ? fmt::format("parent-{}", parent) : environment.job;
  return prefix() + file_name_of(fmt::format("{}-{}", launch, environment.node));
}

/// Owned by this user and not writable by others.
Result<void> make_private_folder(const Path& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return error("cannot make the folder {} ({}); set TMPDIR to a folder you may write",
                 folder.string(), std::generic_category().message(errno));
  struct stat status {};
  const bool sound = lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
                     status.st_uid == geteuid() && (status.st_mode & 077U) == 0;
  if (!sound)
    return error(
        "{} is not a private folder of yours (another user created it); remove "
        "it, or set TMPDIR to another folder",
        folder.string());
  return {};
}

Descriptor open_lock(const Path& path) {
  return Descriptor(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
}

/// Folders of recorders that were killed keep shared memory.
void remove_abandoned(const Path& base) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(base, ignored)) {
    if (!entry.path().filename().string().starts_with(prefix())) continue;
    struct stat status {};
    constexpr time_t too_young_s = 60;  // its makers may be just about to lock it
    if (lstat(entry.path().c_str(), &status) != 0 || status.st_uid != geteuid() ||
        status.st_mtime + too_young_s > time(nullptr))
      continue;
    const Descriptor lead = open_lock(entry.path() / "lead"),
                     present = open_lock(entry.path() / "present");
    if (flock(lead.number(), LOCK_EX | LOCK_NB) == 0 &&
        flock(present.number(), LOCK_EX | LOCK_NB) == 0)
      fs::remove_all(entry.path(), ignored);
  }
}

std::optional<int32_t> integer_in(std::string_view text) {
  const auto number = whole_number(text);
  return number && *number <= INT32_MAX ? std::optional(static_cast<int32_t>(*number))
                                        : std::nullopt;
}

/// Lines "rank", "local rank", "=visible devices" or "".
NodeRank read_introduction(const std::string& text, int64_t pid) {
  std::vector<std::string> lines = split(text, '\n');
  lines.resize(3);
  NodeRank rank{.pid = pid, .rank = integer_in(lines[0]), .local_rank = integer_in(lines[1])};
  if (lines[2].starts_with('=')) rank.visible_devices = lines[2].substr(1);
  return rank;
}

std::string rank_text(const std::optional<int32_t>& number) {
  return number ? std::to_string(*number) : "";
}

}  // namespace

Path shared_memory_folder(const Variable& variable) {
  if (access("/dev/shm", W_OK | X_OK) == 0) return "/dev/shm";
  return variable("TMPDIR").value_or("/tmp");
}

Result<NodeGathering> NodeGathering::join(const LaunchEnvironment& environment, int64_t parent,
                                          const Path& base) {
  NodeGathering gathering;
  gathering.folder_ = base / name_of(environment, parent);
  TPT_TRY(make_private_folder(gathering.folder_));
  TPT_TRY(make_private_folder(gathering.marks()));
  gathering.present_ = open_lock(gathering.folder_ / "present");
  gathering.lead_ = open_lock(gathering.folder_ / "lead");
  if (!gathering.present_ || !gathering.lead_)
    return error("cannot write into {} ({}); free some space there", gathering.folder_.string(),
                 std::generic_category().message(errno));
  gathering.leads_ = flock(gathering.lead_.number(), LOCK_EX | LOCK_NB) == 0;
  if (gathering.leads_)
    remove_abandoned(base);
  else
    flock(gathering.present_.number(), LOCK_SH);
  TPT_TRY(gathering.introduce(environment));
  return gathering;
}

/// Written beside and renamed: who reads it reads all of it.
Result<void> NodeGathering::introduce(const LaunchEnvironment& environment) {
  std::string text = rank_text(environment.rank) + "\n" + rank_text(environment.local_rank) + "\n";
  if (environment.visible_devices) text += "=" + *environment.visible_devices;
  return write_file_atomically(folder_ / fmt::format("{}.rank", getpid()), text);
}

NodeGathering::NodeGathering(NodeGathering&& other) noexcept
    : folder_(std::move(other.folder_)),
      lead_(std::move(other.lead_)),
      present_(std::move(other.present_)),
      leads_(std::exchange(other.leads_, false)) {}

NodeGathering::~NodeGathering() {
  std::error_code ignored;
  if (leads_) fs::remove_all(folder_, ignored);
}

std::vector<NodeRank> NodeGathering::ranks() const {
  std::vector<NodeRank> ranks;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    if (entry.path().extension() != ".rank") continue;
    const auto pid = whole_number(entry.path().stem().string());
    const auto text = read_file(entry.path());
    if (pid && text) ranks.push_back(read_introduction(*text, *pid));
  }
  std::ranges::sort(ranks, [](const NodeRank& a, const NodeRank& b) {
    return std::pair(a.rank, a.pid) < std::pair(b.rank, b.pid);
  });
  return ranks;
}

bool NodeGathering::others_have_left() const {
  if (flock(present_.number(), LOCK_EX | LOCK_NB) != 0) return false;
  flock(present_.number(), LOCK_UN);
  return true;
}

}  // namespace triplepoint::telemetry
