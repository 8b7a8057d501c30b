// SPDX-License-Identifier: Apache-2.0
#include "trainer/cuda/plugin/arena.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include <fmt/format.h>
#include <sys/mman.h>

#include "triplepoint/base/result.h"

#include "trainer/cuda/plugin/libraries.h"

namespace triplepoint::trainer::cuda {
namespace {

constexpr int64_t grain = 512;  // bytes: what vector loads and cuBLASLt like best

char* reserve(int64_t bytes) {
  void* window = mmap(nullptr, static_cast<size_t>(bytes), PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (window == MAP_FAILED)
    throw CudaError(
        fmt::format("{:.1f} GB of addresses could not be reserved ({}; no memory lies behind them, "
                    "but ulimit -v counts them); set ulimit -v unlimited, or lower "
                    "--device-memory-share",
                    static_cast<double>(bytes) * 1e-9, std::strerror(errno)));
  return static_cast<char*>(window);
}

}  // namespace

Arena::Arena(char* block, int64_t bytes)
    : block_(block), bytes_(bytes), exact_(reserve(bytes)), values_(reserve(2 * bytes)) {
  free_[0] = bytes / grain * grain;
}

Arena::~Arena() {
  munmap(exact_, static_cast<size_t>(bytes_));
  munmap(values_, static_cast<size_t>(2 * bytes_));
}

float* Arena::allocate(int64_t count, bool bf16) {
  const int64_t least = std::max<int64_t>(count, 1) * (bf16 ? 2 : 4);
  const int64_t bytes = (least + grain - 1) / grain * grain;
  const auto found = std::find_if(free_.begin(), free_.end(),
                                  [bytes](const auto& gap) { return gap.second >= bytes; });
  if (found == free_.end()) return nullptr;
  const auto [offset, size] = *found;
  free_.erase(found);
  if (size > bytes) free_[offset + bytes] = size - bytes;
  taken_[offset] = bytes;
  used_ += bytes;
  char* address = bf16 ? values_ + 2 * offset : exact_ + offset;
  return reinterpret_cast<float*>(address);
}

void Arena::release(const float* address) {
  const auto* at = reinterpret_cast<const char*>(address);
  const int64_t offset = in_values(at) ? (at - values_) / 2 : at - exact_;
  const auto found = taken_.find(offset);
  TPT_EXPECT(found != taken_.end());
  used_ -= found->second;
  auto gap = free_.emplace(offset, found->second).first;
  taken_.erase(found);
  const auto next = std::next(gap);
  if (next != free_.end() && gap->first + gap->second == next->first) {
    gap->second += next->second;
    free_.erase(next);
  }
  if (gap == free_.begin()) return;
  const auto before = std::prev(gap);
  if (before->first + before->second != gap->first) return;
  before->second += gap->second;
  free_.erase(gap);
}

int64_t Arena::largest_gap() const {
  int64_t largest = 0;
  for (const auto& [offset, size] : free_)
    largest = std::max(largest, size);
  return largest;
}

bool Arena::in_values(const char* address) const {
  return address >= values_ && address < values_ + 2 * bytes_;
}

bool Arena::holds(const void* address) const {
  const auto* at = static_cast<const char*>(address);
  return in_values(at) || (at >= exact_ && at < exact_ + bytes_);
}

Array Arena::at(const float* address) const {
  if (address == nullptr) return {};
  TPT_EXPECT(holds(address));
  const auto* at = reinterpret_cast<const char*>(address);
  if (in_values(at)) return {block_ + (at - values_) / 2, 1};
  return {block_ + (at - exact_), 0};
}

}  // namespace triplepoint::trainer::cuda
