// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/workload/caching_allocator.h"

#include <vector>

#include <doctest/doctest.h>

namespace triplepoint::workload {
namespace {

constexpr int64_t MiB = int64_t{1} << 20;

double mib(double count) {
  return count * static_cast<double>(MiB);
}

TEST_CASE("segments are 20 MiB for tensors below 10 MiB, and whole 2 MiB from there on") {
  CachingAllocator memory;
  memory.take(mib(3));
  CHECK(memory.reserved() == 20 * MiB);
  memory.take(mib(17.5));
  CHECK(memory.reserved() == 38 * MiB);
  memory.take(mib(18));
  CHECK(memory.reserved() == 56 * MiB);
}

TEST_CASE("the rest of a segment serves the next tensor") {
  CachingAllocator memory;
  memory.take(mib(3));
  memory.take(mib(9));
  memory.take(mib(8));
  CHECK(memory.reserved() == 20 * MiB);
  CHECK(memory.allocated() == 20 * MiB);
}

TEST_CASE("a tensor takes the smallest free block that holds it") {
  CachingAllocator memory;
  const auto large = memory.take(mib(64)), small = memory.take(mib(32));
  memory.drop(large);
  memory.drop(small);
  memory.take(mib(30));
  memory.take(mib(64));
  CHECK(memory.reserved() == 96 * MiB);
}

TEST_CASE("free neighbours of one segment join, those of two do not") {
  CachingAllocator memory;
  const auto whole = memory.take(mib(64));
  memory.drop(whole);
  const auto one = memory.take(mib(32)), other = memory.take(mib(32));
  memory.drop(one);
  memory.drop(other);
  memory.drop(memory.take(mib(64)));
  CHECK(memory.reserved() == 64 * MiB);
  const auto apart = memory.take(mib(64)), further = memory.take(mib(64));
  memory.drop(apart);
  memory.drop(further);
  memory.take(mib(128));
  CHECK(memory.reserved() == 256 * MiB);
}

TEST_CASE("small tensors share segments of 2 MiB") {
  CachingAllocator memory;
  std::vector<CachingAllocator::Tensor> tensors;
  for (int i = 0; i < 5; ++i)
    tensors.push_back(memory.take(mib(1)));
  CHECK(memory.reserved() == 6 * MiB);
  for (const auto tensor : tensors)
    memory.drop(tensor);
  CHECK(memory.allocated() == 0);
  CHECK(memory.reserved() == 6 * MiB);
}

TEST_CASE("everything that was taken comes back when it is dropped, and serves again") {
  CachingAllocator memory;
  for (int round = 0; round < 3; ++round) {
    std::vector<CachingAllocator::Tensor> tensors;
    for (int i = 1; i <= 20; ++i)
      tensors.push_back(memory.take(mib(1.5 * i)));
    for (std::size_t i = 0; i < tensors.size(); i += 2)
      memory.drop(tensors[i]);
    for (std::size_t i = 1; i < tensors.size(); i += 2)
      memory.drop(tensors[i]);
    CHECK(memory.allocated() == 0);
  }
  const int64_t reserved = memory.reserved();
  memory.take(mib(20));
  CHECK(memory.reserved() == reserved);
  CHECK(memory.peak() >= 315 * MiB);
}

TEST_CASE("where the driver has no more, segments without a tensor go back to it") {
  CachingAllocator memory(100 * MiB);
  const auto kept = memory.take(mib(30)), free = memory.take(mib(40)), cut = memory.take(mib(20));
  memory.drop(free);
  memory.drop(cut);
  memory.take(mib(12));
  CHECK_FALSE(memory.is_exhausted_by(mib(39)));  // a free block serves it
  REQUIRE(memory.is_exhausted_by(mib(44)));
  memory.take(mib(44));
  CHECK(memory.reserved() == 94 * MiB);  // 30, the cut segment and 44
  CHECK(memory.peak_reserved() == 94 * MiB);
  memory.drop(kept);
  memory.take(mib(200));
  CHECK(memory.reserved() == 264 * MiB);  // more than there is
}

}  // namespace
}  // namespace triplepoint::workload
