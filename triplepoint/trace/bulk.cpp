// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/bulk.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include <sys/mman.h>

namespace triplepoint::trace {
namespace {

/// Where each span of the sorted timeline is now. Keys lie beside each other, spans are read once.
std::vector<uint32_t> order_of(const std::vector<run::Span>& spans) {
  struct Key {
    int32_t rank = 0;
    uint32_t index = 0;
    int64_t begin = 0;
  };
  std::vector<Key> keys;
  reserve_large(keys, spans.size());
  for (size_t i = 0; i < spans.size(); ++i)
    keys.push_back({spans[i].rank, static_cast<uint32_t>(i), spans[i].begin.nanoseconds()});
  std::ranges::sort(keys, [](const Key& a, const Key& b) {
    return std::tie(a.rank, a.begin, a.index) < std::tie(b.rank, b.begin, b.index);
  });
  return mapped(keys, &Key::index);
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
  if (std::ranges::is_sorted(spans, run::by_rank_and_begin)) return;
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

}  // namespace triplepoint::trace
