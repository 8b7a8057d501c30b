// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/store/journal.h"

#include <csignal>
#include <filesystem>

#include <doctest/doctest.h>
#include <sys/resource.h>

#include "triplepoint/base/random.h"
#include "triplepoint/base/scratch_folder.h"

namespace triplepoint::run {
namespace {

namespace fs = std::filesystem;

std::string body_of(uint64_t number) {
  std::string body;
  for (uint64_t i = 0; i < 40 + 7 * number; ++i)
    body.push_back(static_cast<char>(random_bits({.seed = number}, i) & 0x3fU));
  return body;
}

constexpr uint64_t num_blocks = 5;

std::string some_journal(const Path& path) {
  JournalWriter writer = JournalWriter::create(path, 77).value();
  for (uint64_t i = 1; i <= num_blocks; ++i)
    REQUIRE(writer.append(i, body_of(i)));
  REQUIRE(writer.sync());
  return read_file(path).value();
}

std::vector<JournalBlock> blocks_of(std::string_view bytes) {
  std::vector<JournalBlock> blocks;
  read_journal(bytes, "test", [&](const JournalBlock& block) { blocks.push_back(block); }).value();
  return blocks;
}

bool is_beginning(const std::vector<JournalBlock>& blocks) {
  for (size_t i = 0; i < blocks.size(); ++i)
    if (blocks[i].sequence != i + 1 || blocks[i].body != body_of(i + 1)) return false;
  return blocks.size() <= num_blocks;
}

TEST_CASE("blocks come back as they were appended") {
  const ScratchFolder folder;
  const Path file = folder / "journal";
  const std::string bytes = some_journal(file);
  const std::vector<JournalBlock> blocks = blocks_of(bytes);
  CHECK(blocks.size() == num_blocks);
  CHECK(is_beginning(blocks));
  std::vector<JournalBlock> from_file;
  const JournalExtent extent =
      read_journal_file(file, [&](const JournalBlock& b) { from_file.push_back(b); }).value();
  CHECK(extent.run == 77);
  CHECK(extent.sound_bytes == bytes.size());
  CHECK(extent.file_bytes == bytes.size());
  CHECK(is_beginning(from_file));
}

TEST_CASE("a journal cut at any byte has all blocks that are whole") {
  const ScratchFolder folder;
  const Path file = folder / "journal";
  const std::string bytes = some_journal(file);
  size_t before = 0;
  for (size_t cut = 24; cut <= bytes.size(); ++cut) {
    const std::vector<JournalBlock> blocks = blocks_of(std::string_view(bytes).substr(0, cut));
    CHECK(is_beginning(blocks));
    CHECK(blocks.size() >= before);
    before = blocks.size();
  }
  CHECK(before == num_blocks);
  for (size_t cut = 0; cut < 24; ++cut)
    CHECK_FALSE(read_journal(std::string_view(bytes).substr(0, cut), "test", [](const auto&) {}));
}

TEST_CASE("no changed byte goes unnoticed") {
  const ScratchFolder folder;
  const Path file = folder / "journal";
  const std::string bytes = some_journal(file);
  for (size_t place = 24; place < bytes.size(); ++place) {
    std::string changed = bytes;
    changed[place] = static_cast<char>(changed[place] ^ 0x10);
    const std::vector<JournalBlock> blocks = blocks_of(changed);
    CHECK(is_beginning(blocks));
    CHECK(blocks.size() < num_blocks);
  }
}

TEST_CASE("a block that found no room can be appended when there is room again") {
  const ScratchFolder folder;
  const Path file = folder / "journal";
  JournalWriter writer = JournalWriter::create(file, 1).value();
  REQUIRE(writer.append(1, body_of(1)));
  const uint64_t size = fs::file_size(file);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{.rlim_cur = size + 10, .rlim_max = before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &tight) == 0);
  const auto refused = writer.append(2, body_of(2));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what.find("free some space") != std::string::npos);
  CHECK(blocks_of(read_file(file).value()).size() == 1);
  REQUIRE(writer.append(2, body_of(2)));
  CHECK(is_beginning(blocks_of(read_file(file).value())));
  CHECK(blocks_of(read_file(file).value()).size() == 2);
}

TEST_CASE("a journal is never written over, and can be emptied") {
  const ScratchFolder folder;
  const Path file = folder / "journal";
  some_journal(file);
  CHECK_FALSE(JournalWriter::create(file, 2));
  fs::remove(file);
  JournalWriter writer = JournalWriter::create(file, 3).value();
  REQUIRE(writer.append(9, body_of(9)));
  REQUIRE(writer.clear());
  REQUIRE(writer.append(1, body_of(1)));
  CHECK(is_beginning(blocks_of(read_file(file).value())));
}

}  // namespace
}  // namespace triplepoint::run
