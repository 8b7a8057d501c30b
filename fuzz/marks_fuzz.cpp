// SPDX-License-Identifier: Apache-2.0
// A ring of marks: whatever the bytes, the reader ends, and what it yields makes sense.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

#include "triplepoint/base/result.h"

#include "triplepoint/mark/reader.h"
#include "triplepoint/mark/wire.h"

namespace triplepoint {
namespace {

const Path& folder() {
  static const Path path = [] {
    Path made = std::filesystem::temp_directory_path() /
                ("triplepoint_marks_fuzz_" + std::to_string(::getpid()));
    std::filesystem::create_directories(made);
    return made;
  }();
  return path;
}

/// A small ring (64 entries, 16 names) with entries that are whole, the input laid over it: its
/// first byte says where, so that headers, names and entries are all reached.
std::string ring_from(const uint8_t* data, size_t size) {
  triplepoint_wire_header header{};
  __builtin_memcpy(header.magic, TRIPLEPOINT_WIRE_MAGIC, 8);
  header.version = triplepoint_wire_version;
  header.header_bytes = triplepoint_wire_header_bytes;
  header.entry_count = 64;
  header.name_count = 16;
  header.pid = 1;
  header.head = 70;
  constexpr size_t names = triplepoint_wire_header_bytes;
  constexpr size_t entries = names + 16 * sizeof(triplepoint_wire_name);
  std::string file(entries + 64 * sizeof(triplepoint_wire_entry), '\0');
  const size_t places[] = {0, names, entries, 16};
  const size_t at = size > 0 ? places[data[0] % 4] : 0;
  __builtin_memcpy(file.data(), &header, sizeof header);
  for (size_t i = 1; i < size && at + i <= file.size(); ++i)
    file[at + i - 1] = static_cast<char>(data[i]);
  for (uint64_t i = 6; i < 70; ++i) {  // checks are made right, or nothing would get past them
    auto* place = file.data() + entries + i % 64 * sizeof(triplepoint_wire_entry);
    triplepoint_wire_entry entry;
    __builtin_memcpy(&entry, place, sizeof entry);
    if (entry.reserved % 2 == 0) entry.sequence = i + 1;
    if (entry.reserved % 4 == 0) entry.check = triplepoint_wire_check(&entry);
    __builtin_memcpy(place, &entry, sizeof entry);
  }
  return file;
}

void read_all(mark::Reader& reader) {
  reader.drain([&](const mark::Event& event) {
    TPT_EXPECT(event.begin_ns >= 0);
    TPT_EXPECT(event.number >= -1);
    TPT_EXPECT(event.process == 0);
    TPT_EXPECT(event.kind <= mark::EventKind::value);
    TPT_EXPECT(event.kind != mark::EventKind::span || event.end_ns >= event.begin_ns);
    TPT_EXPECT(event.name.size() <= 3 * triplepoint_wire_name_length);
  });
  TPT_EXPECT(reader.lost() >= 0);
}

}  // namespace
}  // namespace triplepoint

extern "C" int fuzz_marks(const uint8_t* data, size_t size) {
  using namespace triplepoint;
  const Path file = folder() / "1-1.marks";
  std::ofstream(file, std::ios::binary) << ring_from(data, size);
  auto reader = mark::Reader::watch(folder());
  read_all(*reader);
  std::ofstream(file, std::ios::binary) << std::string(reinterpret_cast<const char*>(data), size);
  read_all(*reader);
  auto raw = mark::Reader::watch(folder());
  read_all(*raw);
  return 0;
}
