// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/bulk.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include <sys/mman.h>

namespace triplepoint::trace {
namespace {

struct Key {
  uint64_t value = 0;
  uint32_t index = 0;
};

/// One pass of a radix sort: stable, by the bits from `shift`.
void sort_by_digit(const std::vector<Key>& from, std::vector<Key>& to, int shift) {
  constexpr size_t digits = 1 << 11;
  std::array<uint32_t, digits + 1> begin{};
  for (const Key& key : from)
    ++begin[(key.value >> shift & (digits - 1)) + 1];
  for (size_t digit = 1; digit < digits; ++digit)
    begin[digit] += begin[digit - 1];
  for (const Key& key : from)
    to[begin[key.value >> shift & (digits - 1)]++] = key;
}

/// Sorts by the lowest `bits` bits of the value; equal ones keep their order.
void radix_sort(std::vector<Key>& keys, std::vector<Key>& spare, int bits) {
  for (int shift = 0; shift < bits; shift += 11) {
    sort_by_digit(keys, spare, shift);
    std::swap(keys, spare);
  }
}

/// Where each span of the sorted timeline is now.
std::vector<uint32_t> order_of(const std::vector<run::Span>& spans) {
  std::vector<uint32_t> order(spans.size());
  std::vector<Key> keys, spare;
  for (std::vector<Key>* const all : {&keys, &spare}) {
    reserve_large(*all, spans.size());
    all->resize(spans.size());
  }
  uint64_t most = 0, most_rank = 0;
  for (size_t i = 0; i < spans.size(); ++i) {
    keys[i] = {static_cast<uint64_t>(spans[i].begin.nanoseconds()), static_cast<uint32_t>(i)};
    most = std::max(most, keys[i].value);
    most_rank = std::max(most_rank, static_cast<uint64_t>(spans[i].rank));
  }
  radix_sort(keys, spare, static_cast<int>(std::bit_width(most)));
  if (most_rank > 0) {
    for (Key& key : keys)
      key.value = static_cast<uint64_t>(spans[key.index].rank);
    radix_sort(keys, spare, static_cast<int>(std::bit_width(most_rank)));
  }
  for (size_t i = 0; i < keys.size(); ++i)
    order[i] = keys[i].index;
  return order;
}

template <class Item>
void rearrange(std::vector<Item>& items, const std::vector<uint32_t>& order) {
  std::vector<Item> moved;
  reserve_large(moved, items.size());
  for (const uint32_t from : order)
    moved.push_back(items[from]);
  items = std::move(moved);
}

}  // namespace

void sort_spans(run::Timeline& timeline) {
  std::vector<run::Span>& spans = timeline.spans;
  const auto by_rank_and_begin = [](const run::Span& a, const run::Span& b) {
    return std::pair(a.rank, a.begin) < std::pair(b.rank, b.begin);
  };
  if (std::is_sorted(spans.begin(), spans.end(), by_rank_and_begin)) return;
  if (spans.size() > UINT32_MAX) return run::sort(timeline);
  const std::vector<uint32_t> order = order_of(spans);
  rearrange(spans, order);
  if (!timeline.details.empty()) rearrange(timeline.details, order);
}

void prefer_large_pages(const void* begin, size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t page = 4096;
  constexpr size_t min_bytes = 4 << 20;
  if (bytes < min_bytes) return;
  auto* const first = static_cast<const char*>(begin);
  const size_t to_page = (page - reinterpret_cast<uintptr_t>(first) % page) % page;
  const size_t whole = (bytes - to_page) / page * page;
  // Only advice: what comes back does not matter.
  (void)madvise(const_cast<char*>(first) + to_page, whole, MADV_HUGEPAGE);
#else
  (void)begin, (void)bytes;
#endif
}

namespace {

uint64_t mix(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const auto product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t eight(const char* text) {
  uint64_t all = 0;
  std::memcpy(&all, text, sizeof all);
  return all;
}

}  // namespace

// Folded 64x64 multiplications over 16 bytes a time, as wyhash and others do.
uint64_t hash_of(std::string_view text, uint64_t salt) {
  constexpr uint64_t k0 = 0xa0761d6478bd642f, k1 = 0xe7037ed1a0b428db;
  uint64_t hash = mix(salt ^ k0, text.size() ^ k1);
  const char* at = text.data();
  size_t left = text.size();
  for (; left >= 16; at += 16, left -= 16)
    hash = mix(eight(at) ^ k0 ^ hash, eight(at + 8) ^ k1);
  char tail[16] = {};
  if (left > 0) std::memcpy(tail, at, left);
  return mix(eight(tail) ^ k1 ^ hash, eight(tail + 8) ^ k0);
}

}  // namespace triplepoint::trace
