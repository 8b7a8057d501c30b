// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/mark/reader.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <map>
#include <set>
#include <system_error>

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "triplepoint/base/descriptor.h"

#include "triplepoint/mark/wire.h"

namespace triplepoint::mark {
namespace {

/// How many bytes the character at the head of `text` has; 0 if it is none that may be shown.
std::size_t character_size(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return first >= 0x20 && first != 0x7F ? 1 : 0;
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  }
  const auto second = static_cast<unsigned char>(text[1]);  // too long, surrogate, beyond Unicode
  const bool outside = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                       (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return outside ? 0 : size;
}

/// As valid UTF-8 without control characters: it goes into tables and JSON.
std::string showable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    size > 0 ? void(shown.append(text, 0, size)) : shown.push_back('?');
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return shown;
}

/// Texts that live as long as the reader, each kept once.
class Names {
 public:
  std::string_view keep(std::string_view text) {
    const auto found = texts_.find(text);
    return found != texts_.end() ? *found : *texts_.insert(showable(text)).first;
  }

 private:
  std::set<std::string, std::less<>> texts_;
};

/// One process's file, as wire.h describes it, read with pread: a file that is cut short while
/// it is read yields less, never a signal.
struct Ring {
  int32_t index = 0;  // of its process
  int64_t pid = 0;
  uint32_t entry_count = 0, name_count = 0;
  Descriptor file;  // closed when its process is gone and all is read

  /// Visits what is new; how many entries were lost on the way.
  int64_t drain(Names&, const std::function<void(const Event&)>& visit);

 private:
  struct Batch;
  enum class Found { whole, unfinished, overrun };

  std::size_t offset_of(uint64_t entry) const;
  bool writer_is_gone() const;
  void note_overdue(uint64_t head);
  Found look_at(const triplepoint_wire_entry& entry, uint64_t number) const;
  bool event_of(const triplepoint_wire_entry& entry, Names& names, Event& event);
  std::string_view name_at(uint16_t place, Names& names);
  std::vector<triplepoint_wire_entry> read_from(uint64_t number, uint64_t head) const;

  uint64_t next_ = 0;  // the first entry that was not visited
  uint64_t overdue_ = 0, head_seen_ = 0;
  int64_t head_seen_ns_ = 0;
  std::vector<std::string_view> names_;  // by place; null data: not read yet
};

/// What a file turned out to be: a ring, one that is not ready yet, or nothing of ours.
struct Opened {
  enum class State { ring, unready, foreign };
  State state = State::foreign;
  std::unique_ptr<Ring> ring;
  Process process;
};

using Header = triplepoint_wire_header;
using Entry = triplepoint_wire_entry;
using Name = triplepoint_wire_name;

constexpr uint64_t entries_at_once = 512;       // 32 KiB
constexpr int64_t patience_ns = 1'000'000'000;  // with a thread that began an entry
constexpr uint64_t largest_head = uint64_t{1} << 62;

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

std::optional<int32_t> number_if_known(int32_t number) {
  return number >= 0 ? std::optional(number) : std::nullopt;
}

std::size_t size_of(uint32_t entry_count, uint32_t name_count) {
  return triplepoint_wire_header_bytes + std::size_t{name_count} * sizeof(Name) +
         std::size_t{entry_count} * sizeof(Entry);
}

bool is_sound(const Header& header, std::size_t file_size) {
  return header.version == triplepoint_wire_version &&
         header.header_bytes == triplepoint_wire_header_bytes &&
         std::has_single_bit(header.entry_count) && header.entry_count <= 1U << 24 &&
         header.name_count > 0 && header.name_count < 1U << 16 &&
         size_of(header.entry_count, header.name_count) <= file_size;
}

Process process_of(const Header& header) {
  const auto& devices = header.visible_devices;
  return {.pid = header.pid,
          .rank = number_if_known(header.rank),
          .local_rank = number_if_known(header.local_rank),
          .world_size = number_if_known(header.world_size),
          .visible_devices = showable({devices, strnlen(devices, sizeof devices)})};
}

double known_or_minus_one(double amount) {
  return std::isfinite(amount) && amount >= 0 ? amount : -1;
}

/// Reads all of it, or nothing.
bool read_at(const Descriptor& file, void* bytes, std::size_t size, std::size_t offset) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t count = pread(file.number(), static_cast<char*>(bytes) + done, size - done,
                                static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

Opened open_ring(const Path& path) {
  using State = Opened::State;
  Opened opened;
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat about {};
  if (!file || fstat(file.number(), &about) != 0 || !S_ISREG(about.st_mode)) return opened;
  Header header{};
  const bool is_read = read_at(file, &header, sizeof header, 0);
  if (!is_read || header.magic[0] == 0) {
    opened.state = State::unready;
    return opened;
  }
  // Its size is complete since its magic is: the one from before may be that of an empty file.
  if (fstat(file.number(), &about) != 0 ||
      std::memcmp(header.magic, TRIPLEPOINT_WIRE_MAGIC, sizeof header.magic) != 0 ||
      !is_sound(header, static_cast<std::size_t>(about.st_size)))
    return opened;
  opened.state = State::ring;
  opened.process = process_of(header);
  opened.ring = std::make_unique<Ring>();
  opened.ring->pid = header.pid;
  opened.ring->entry_count = header.entry_count;
  opened.ring->name_count = header.name_count;
  opened.ring->file = std::move(file);
  return opened;
}

std::size_t Ring::offset_of(uint64_t entry) const {
  return size_of(static_cast<uint32_t>(entry % entry_count), name_count);
}

/// It holds a lock on its file as long as it lives. Where locks are not to be trusted (a network
/// file system, a program that closes what it did not open) its number may still be that of a
/// process.
bool Ring::writer_is_gone() const {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  const bool is_free = fcntl(file.number(), F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
  const auto number = static_cast<pid_t>(pid);
  return is_free && (number <= 0 || (kill(number, 0) != 0 && errno == ESRCH));
}

/// Entries that were begun a while ago and are not finished are abandoned: the writer
/// them was killed, or stopped.
void Ring::note_overdue(uint64_t head) {
  const int64_t now = now_ns();
  if (now - head_seen_ns_ < patience_ns && head_seen_ns_ != 0) return;
  overdue_ = head_seen_;
  head_seen_ = head;
  head_seen_ns_ = now;
}

Ring::Found Ring::look_at(const Entry& entry, uint64_t number) const {
  if (entry.sequence == number + 1 && entry.check == triplepoint_wire_check(&entry))
    return Found::whole;
  return entry.sequence > number + 1 ? Found::overrun : Found::unfinished;
}

std::string_view Ring::name_at(uint16_t place, Names& names) {
  if (place == 0 || place > name_count) return "";
  if (names_.size() <= place) names_.resize(place + std::size_t{1});
  if (names_[place].data()) return names_[place];
  Name name{};
  const std::size_t offset = triplepoint_wire_header_bytes + (place - std::size_t{1}) * sizeof name;
  const bool is_whole = read_at(file, &name, sizeof name, offset) &&
                        name.length <= sizeof name.text &&
                        name.hash == triplepoint_wire_hash(name.text, name.length);
  return names_[place] = names.keep(is_whole ? std::string_view(name.text, name.length) : "?");
}

/// Nothing of what a program wrote is believed to be sensible.
bool Ring::event_of(const Entry& entry, Names& names, Event& event) {
  if (entry.kind > static_cast<uint16_t>(EventKind::value) || entry.begin_ns < 0) return false;
  event.kind = static_cast<EventKind>(entry.kind);
  const bool is_span = event.kind == EventKind::span;
  if (is_span && entry.end_ns < entry.begin_ns) return false;
  event.process = index;
  event.thread = static_cast<int32_t>(entry.thread);
  event.begin_ns = entry.begin_ns;
  event.end_ns = is_span ? entry.end_ns : 0;
  event.number = std::max<int64_t>(entry.number, -1);
  event.name = name_at(entry.name, names);
  event.group = name_at(entry.group, names);
  event.bytes = is_span ? known_or_minus_one(entry.amount) : -1;
  event.flops = is_span ? known_or_minus_one(entry.flops) : -1;
  event.value = event.kind == EventKind::value      ? entry.amount
                : event.kind == EventKind::step_end ? known_or_minus_one(entry.amount)
                                                    : 0;
  return true;
}

/// A run of neighbouring entries, up to the end of the ring.
std::vector<Entry> Ring::read_from(uint64_t number, uint64_t head) const {
  const uint64_t until_end = entry_count - number % entry_count;
  std::vector<Entry> entries(std::min({head - number, until_end, entries_at_once}));
  if (!read_at(file, entries.data(), entries.size() * sizeof(Entry), offset_of(number)))
    entries.clear();
  return entries;
}

int64_t Ring::drain(Names& names, const std::function<void(const Event&)>& visit) {
  if (!file) return 0;
  const bool is_over = writer_is_gone();  // asked before the head is read: it is the last one
  uint64_t head = 0;
  if (!read_at(file, &head, sizeof head, offsetof(Header, head)) || head > largest_head) return 0;
  note_overdue(head);
  const uint64_t overdue = is_over ? head : overdue_;
  int64_t lost = 0;
  if (head > next_ + entry_count) {
    lost += static_cast<int64_t>(head - entry_count - next_);
    next_ = head - entry_count;
  }
  while (next_ < head) {
    const std::vector<Entry> entries = read_from(next_, head);
    if (entries.empty()) break;
    for (const Entry& entry : entries) {
      const Found found = look_at(entry, next_);
      if (found == Found::unfinished && next_ >= overdue) return lost;
      Event event;
      const bool is_event = found == Found::whole && event_of(entry, names, event);
      is_event ? visit(event) : void(++lost);
      ++next_;
    }
  }
  if (is_over) file.close();
  return lost;
}

/// More files than this are not looked at: each costs a file descriptor.
constexpr std::size_t most_rings = 4096;

bool is_ring_file(const std::filesystem::directory_entry& entry) {
  std::error_code ignored;
  return entry.path().extension() == ".marks" &&
         entry.symlink_status(ignored).type() == std::filesystem::file_type::regular;
}

}  // namespace

struct Reader::State {
  Path folder;
  Names names;
  std::map<std::string, std::unique_ptr<Ring>> rings;  // by file name; null: not one of ours
  std::vector<Process> processes;
  int64_t lost = 0;

  void adopt(const Path& path);
  void look_for_rings();
};

void Reader::State::adopt(const Path& path) {
  Opened opened = open_ring(path);
  if (opened.state == Opened::State::unready) return;  // its writer has just made it
  if (opened.ring) {
    opened.ring->index = static_cast<int32_t>(processes.size());
    processes.push_back(opened.process);
  }
  rings.emplace(path.filename().string(), std::move(opened.ring));
}

void Reader::State::look_for_rings() {
  std::error_code problem;
  std::vector<Path> fresh;
  for (const auto& entry : std::filesystem::directory_iterator(folder, problem)) {
    if (is_ring_file(entry) && !rings.contains(entry.path().filename().string()))
      fresh.push_back(entry.path());
  }
  std::ranges::sort(fresh);
  for (const Path& path : fresh) {
    if (rings.size() < most_rings) adopt(path);
  }
}

Reader::Reader(std::unique_ptr<State> state) : state_(std::move(state)) {}
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;
Reader::~Reader() = default;

Result<Reader> Reader::watch(const Path& folder) {
  std::error_code problem;
  if (!std::filesystem::is_directory(folder, problem))
    return error("{}: no folder to read marks from ({}); name the one that {} names",
                 folder.string(), problem ? problem.message() : "it is not a folder",
                 folder_variable);
  auto state = std::make_unique<State>();
  state->folder = folder;
  return Reader(std::move(state));
}

void Reader::drain(const std::function<void(const Event&)>& visit) {
  state_->look_for_rings();
  for (auto& [name, ring] : state_->rings) {
    if (ring) state_->lost += ring->drain(state_->names, visit);
  }
}

const std::vector<Process>& Reader::processes() const {
  return state_->processes;
}

int64_t Reader::lost() const {
  return state_->lost;
}

}  // namespace triplepoint::mark
