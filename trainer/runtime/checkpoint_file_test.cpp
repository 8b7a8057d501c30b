// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/checkpoint_file.h"

#include <filesystem>

#include <doctest/doctest.h>
#include <unistd.h>

namespace triplepoint::trainer {
namespace {

Path scratch() {
  return std::filesystem::temp_directory_path() /
         ("tpt-blocks-" + std::to_string(::getpid()) + ".tpt");
}

std::string two_blocks() {
  Parameter shape;
  shape.name = "layers.0.mlp.up.weight";
  shape.whole_rows = 4;
  shape.whole_columns = 6;
  shape.rows = {1, 3};
  shape.first_column = 2;
  shape.columns = 3;
  const std::vector<float> master = {1, 2, 3, 4}, first = {5, 6, 7, 8}, second = {9, 10, 11, 12};
  BlockWriter writer;
  writer.add(shape, 2, master, first, second);
  writer.add(shape, 0, {master.data(), 2}, {}, {});
  return writer.take();
}

}  // namespace

TEST_CASE("blocks come back as they were written") {
  const Path file = scratch();
  REQUIRE(write_file_atomically(file, two_blocks()));
  std::multimap<std::string, SavedBlock> blocks;
  REQUIRE(read_blocks(file, blocks));
  REQUIRE(blocks.size() == 2);
  const SavedBlock& block = blocks.begin()->second;
  CHECK(block.shape.name == "layers.0.mlp.up.weight");
  CHECK(block.shape.rows == std::vector<int64_t>{1, 3});
  CHECK(block.shape.first_column == 2);
  CHECK(block.first == 2);
  CHECK(block.second_moment == std::vector<float>{9, 10, 11, 12});
  CHECK(std::next(blocks.begin())->second.first_moment.empty());
  std::filesystem::remove(file);
}

TEST_CASE("a file of blocks that was cut or changed anywhere is refused with its name") {
  const Path file = scratch();
  const std::string whole = two_blocks();
  for (size_t at = 0; at < whole.size(); at += 7) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x20);
    for (const std::string& text : {changed, whole.substr(0, at)}) {
      REQUIRE(write_file_atomically(file, text));
      std::multimap<std::string, SavedBlock> blocks;
      const Result<void> read = read_blocks(file, blocks);
      REQUIRE_FALSE(read);
      CHECK(read.error().what.find(file.string()) == 0);
    }
  }
  std::filesystem::remove(file);
}

}  // namespace triplepoint::trainer
