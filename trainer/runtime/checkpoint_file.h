// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "trainer/model/parameter.h"

namespace triplepoint::trainer {

/// Elements of one parameter as a rank holds them: in order, elements [first, first + count) of the
/// part that `rows` and `first_column` describe.
struct SavedBlock {
  Parameter shape;  // name, whole size, rows, columns; no values
  int64_t first = 0;
  std::vector<float> master, first_moment, second_moment;  // moments empty where frozen
};

/// Text of a file of blocks: a magic word, the blocks, a checksum.
class BlockWriter {
 public:
  BlockWriter();
  void add(const Parameter&, int64_t first, std::span<const float> master,
           std::span<const float> first_moment, std::span<const float> second_moment);
  std::string take();

 private:
  std::string text_;
};

/// The blocks of one file, by name of their parameter.
Result<void> read_blocks(const Path& file, std::multimap<std::string, SavedBlock>& blocks);

}  // namespace triplepoint::trainer
