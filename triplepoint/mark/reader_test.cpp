// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/mark/reader.h"

#include <cstring>

#include <doctest/doctest.h>

#include "triplepoint/base/random.h"

#include "triplepoint/mark/mark_testing.h"

namespace triplepoint::mark {
namespace {

constexpr std::size_t names_offset = triplepoint_wire_header_bytes;
constexpr std::size_t entries_offset =
    names_offset + triplepoint_wire_name_count * sizeof(triplepoint_wire_name);

std::size_t entry_offset(int number) {
  return entries_offset + static_cast<std::size_t>(number) * sizeof(triplepoint_wire_entry);
}

/// A file in which five values were said: 0, 1, 2, 3, 4.
std::string file_of_five(const MarkFolder& folder) {
  run_child(folder, [] {
    for (int i = 0; i < 5; ++i)
      triplepoint_value("five", i);
  });
  return bytes_of(folder.only_file());
}

void put(std::string& bytes, std::size_t offset, auto number) {
  std::memcpy(bytes.data() + offset, &number, sizeof number);
}

std::vector<double> values_of(const std::vector<Event>& events) {
  std::vector<double> values;
  for (const Event& event : events)
    values.push_back(event.value);
  return values;
}

TEST_CASE("a folder that is not there is an error that names it") {
  const auto reader = Reader::watch("/no/such/folder");
  REQUIRE_FALSE(reader);
  CHECK(reader.error().what.find("/no/such/folder") != std::string::npos);
}

TEST_CASE("an entry that a dead program never finished is lost, those after it are not") {
  const MarkFolder folder;
  std::string bytes = file_of_five(folder);
  put(bytes, entry_offset(2), uint64_t{0});
  put_bytes(folder.only_file(), bytes);
  Reader reader = *Reader::watch(folder.folder());
  CHECK(values_of(all_events(reader)) == std::vector<double>{0, 1, 3, 4});
  CHECK(reader.lost() == 1);
}

TEST_CASE("an entry that a living program is about to finish is waited for") {
  const MarkFolder folder;
  const std::string whole = file_of_five(folder);
  std::string half = whole;
  put(half, offsetof(triplepoint_wire_header, pid), int64_t{getpid()});
  put(half, entry_offset(2), uint64_t{0});
  put_bytes(folder.only_file(), half);
  Reader reader = *Reader::watch(folder.folder());
  CHECK(values_of(all_events(reader)) == std::vector<double>{0, 1});
  CHECK(all_events(reader).empty());
  put_bytes(folder.only_file(), whole);
  CHECK(values_of(all_events(reader)) == std::vector<double>{2, 3, 4});
  CHECK(reader.lost() == 0);
}

TEST_CASE("an entry that was changed on the way is not believed") {
  const MarkFolder folder;
  std::string bytes = file_of_five(folder);
  bytes[entry_offset(3) + offsetof(triplepoint_wire_entry, amount)] ^= 1;
  put_bytes(folder.only_file(), bytes);
  Reader reader = *Reader::watch(folder.folder());
  CHECK(values_of(all_events(reader)) == std::vector<double>{0, 1, 2, 4});
  CHECK(reader.lost() == 1);
}

TEST_CASE("a file that is not ready is looked at again, a foreign one never") {
  const MarkFolder folder;
  const std::string bytes = file_of_five(folder);
  const Path path = folder.only_file();
  std::string unready = bytes;
  std::memset(unready.data(), 0, 8);
  put_bytes(path, unready);
  put_bytes(folder / "9-9.marks", std::string(10000, 'x'));
  put_bytes(folder / "notes.txt", "not ours");
  Reader reader = *Reader::watch(folder.folder());
  CHECK(all_events(reader).empty());
  put_bytes(path, bytes);
  CHECK(all_events(reader).size() == 5);
  CHECK(reader.processes().size() == 1);
}

TEST_CASE("names come out as text that any table can hold") {
  const MarkFolder folder;
  run_child(folder, [] {
    triplepoint_region_begin(
        "bell \a, cut \xC3, surrogate \xED\xA0\x80, good \xC3\xA4\xE2\x82\xAC");
  });
  Reader reader = *Reader::watch(folder.folder());
  const std::vector<Event> events = all_events(reader);
  REQUIRE(events.size() == 1);
  CHECK(events[0].name == "bell ?, cut ?, surrogate ???, good \xC3\xA4\xE2\x82\xAC");
}

TEST_CASE("no bytes upset a reader, and what it yields makes sense") {
  const MarkFolder folder;
  const std::string bytes = file_of_five(folder);
  const Path path = folder.only_file();
  uint64_t throws = 0;
  const auto below = [&](std::size_t sides) {
    return random_bits({.seed = 4, .stream = 1}, throws++) % sides;
  };
  for (int round = 0; round < 300; ++round) {
    std::string broken = bytes;
    for (int i = 0; i < 8; ++i) {
      // Where it matters: the header, the entries in use, the names anywhere.
      const std::size_t places[] = {below(160), entries_offset + below(320),
                                    names_offset + below(entries_offset - names_offset)};
      broken[places[below(3)]] = static_cast<char>(below(256));
    }
    if (round % 3 == 0) broken.resize(below(broken.size()));
    put_bytes(path, broken);
    Reader reader = *Reader::watch(folder.folder());
    for (const Event& event : all_events(reader)) {
      CHECK(event.begin_ns >= 0);
      CHECK(event.number >= -1);
      CHECK(event.process == 0);
    }
    CHECK(reader.lost() >= 0);
  }
}

TEST_CASE("a file that is cut while it is read yields no more, and no signal") {
  const MarkFolder folder;
  const std::string bytes = file_of_five(folder);
  Reader reader = *Reader::watch(folder.folder());
  put_bytes(folder.only_file(), bytes.substr(0, 100));
  CHECK(all_events(reader).empty());
}

}  // namespace
}  // namespace triplepoint::mark
