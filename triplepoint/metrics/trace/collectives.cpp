// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/collectives.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace triplepoint::metrics {

namespace {

template <class Less>
const CollectivePart& extreme_part(const Collective& collective, Less less) {
  return *std::min_element(collective.parts.begin(), collective.parts.end(), less);
}

using RowKey = std::tuple<std::string_view, int32_t, Bytes, int64_t>;

void add(CollectiveRow& row, const Collective& collective) {
  ++row.occurrences;
  for (const CollectivePart& part : collective.parts) {
    row.total += part.duration();
    row.shortest = row.kernels == 0 ? part.duration() : std::min(row.shortest, part.duration());
    row.longest = std::max(row.longest, part.duration());
    ++row.kernels;
    if (collective.knows_waits()) row.wait = row.wait.value_or(0) + collective.wait_of(part);
  }
  if (const auto transfer = collective.transfer())
    row.transfer = row.transfer.value_or(0) + *transfer;
}

/// `transfers`: how many occurrences the row's transfer is of.
void finish(CollectiveRow& row, int64_t transfers) {
  const double ns = transfers > 0
                        ? static_cast<double>(*row.transfer) / static_cast<double>(transfers)
                        : static_cast<double>(row.shortest);
  if (row.size <= Bytes() || ns <= 0) return;
  row.algbw_gb_s = row.size / unit::B / ns;  // B/ns is GB/s
  if (const auto factor = bus_factor(row.label, row.group_size))
    row.busbw_gb_s = *row.algbw_gb_s * *factor;
}

}  // namespace

int64_t Collective::first_begin() const {
  return extreme_part(*this, [](auto& a, auto& b) { return a.begin < b.begin; }).begin;
}
int64_t Collective::last_begin() const {
  return extreme_part(*this, [](auto& a, auto& b) { return a.begin > b.begin; }).begin;
}
int64_t Collective::first_end() const {
  return extreme_part(*this, [](auto& a, auto& b) { return a.end < b.end; }).end;
}
int64_t Collective::last_end() const {
  return extreme_part(*this, [](auto& a, auto& b) { return a.end > b.end; }).end;
}
int32_t Collective::last_starter() const {
  return extreme_part(*this, [](auto& a, auto& b) { return a.begin > b.begin; }).rank;
}

int64_t Collective::wait_of(const CollectivePart& part) const {
  return std::clamp<int64_t>(arrival() - part.begin, 0, std::max<int64_t>(0, part.duration()));
}

std::optional<int64_t> Collective::transfer() const {
  if (!knows_waits()) return std::nullopt;
  return last_end() - arrival();
}

std::optional<double> bus_factor(std::string_view label, int32_t ranks) {
  if (ranks < 1) return std::nullopt;
  const double others = static_cast<double>(ranks - 1) / ranks;
  if (label == "all_reduce") return 2 * others;
  if (label == "all_gather" || label == "reduce_scatter" || label == "all_to_all") return others;
  if (label == "broadcast" || label == "send_recv") return 1.0;
  return std::nullopt;
}

std::vector<CollectiveRow> tabulate(const std::vector<Collective>& collectives) {
  std::map<RowKey, std::pair<CollectiveRow, int64_t>> rows;
  for (const Collective& c : collectives) {
    auto& [row, transfers] = rows[{c.label, c.group_size, c.size, c.count}];
    row.label = c.label;
    row.group_size = c.group_size;
    row.size = c.size;
    row.count = c.count;
    add(row, c);
    transfers += c.knows_waits();
  }
  std::vector<CollectiveRow> table;
  for (auto& [key, entry] : rows) {
    finish(entry.first, entry.second);
    table.push_back(entry.first);
  }
  return table;
}

std::vector<MessageSizes> message_sizes(const std::vector<Collective>& collectives) {
  std::map<std::pair<std::string_view, double>, MessageSizes> buckets;
  for (const Collective& c : collectives) {
    if (c.size <= Bytes()) continue;
    double upper = 1;
    while (upper * unit::B < c.size)
      upper *= 2;
    MessageSizes& bucket = buckets[{c.label, upper}];
    bucket.label = c.label;
    bucket.upper = upper * unit::B;
    ++bucket.occurrences;
    for (const CollectivePart& part : c.parts)
      bucket.total += part.duration();
    bucket.transfer += c.transfer().value_or(0);
  }
  std::vector<MessageSizes> list;
  list.reserve(buckets.size());
  for (const auto& [key, bucket] : buckets)
    list.push_back(bucket);
  return list;
}

}  // namespace triplepoint::metrics
