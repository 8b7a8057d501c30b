// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/workload/record_rows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace triplepoint::workload {
namespace {

// NeMo's pad_seq_length_to_mult.
constexpr int64_t row_multiple = 16;

/// Share of the records by length; shares sum to 1. Longer ones are cut at the sequence length.
std::map<int64_t, double> cut_lengths(const spec::Job& job, int64_t multiple) {
  const spec::Records& records = *job.records;
  const double all = std::accumulate(records.shares.begin(), records.shares.end(), 0.0);
  std::map<int64_t, double> shares;
  for (std::size_t i = 0; i < records.lengths.size(); ++i) {
    const int64_t rounded = (records.lengths[i] + multiple - 1) / multiple * multiple;
    shares[std::min(rounded, job.model.sequence_length)] += records.shares[i] / all;
  }
  std::erase_if(shares, [](const auto& entry) { return entry.second <= 0; });
  return shares;
}

struct Moments {
  double mean = 0, square = 0;
};

Moments moments_of(const std::map<int64_t, double>& shares) {
  Moments moments;
  for (const auto& [length, share] : shares) {
    moments.mean += share * as_real(length);
    moments.square += share * as_real(length) * as_real(length);
  }
  return moments;
}

/// Of the longest of `count` records: P(max <= x) = P(one <= x) ^ count.
std::map<int64_t, double> longest_of(std::map<int64_t, double> shares, int64_t count) {
  double below = 0, below_all = 0;
  for (auto& [length, share] : shares) {
    below += share;
    const double all = std::pow(std::min(1.0, below), as_real(count));
    share = all - below_all;
    below_all = all;
  }
  return shares;
}

RowShape rows_as_long_as_the_longest(const spec::Job& job) {
  const spec::Plan& plan = job.plan;
  int64_t multiple = std::lcm(row_multiple, 2 * plan.context_parallel_size);
  if (plan.sequence_parallel) multiple = std::lcm(multiple, plan.tensor_parallel_size);
  const auto shares = longest_of(cut_lengths(job, multiple), plan.micro_batch_size);
  const Moments moments = moments_of(shares);
  const auto rows = static_cast<int64_t>(std::ceil(moments.mean / as_real(multiple) - 1e-9));
  return {.length = std::min(rows * multiple, job.model.sequence_length),
          .largest = shares.rbegin()->first,
          .squares = moments.square};
}

/// Rows that hold `counts` records of each length: first fit, longest first.
int64_t count_rows(const std::map<int64_t, int64_t>& counts, int64_t length) {
  std::vector<int64_t> room;
  for (auto entry = counts.rbegin(); entry != counts.rend(); ++entry) {
    const auto [tokens, count] = *entry;
    int64_t rest = count;
    for (std::size_t row = 0; rest > 0; ++row) {
      if (row == room.size()) room.push_back(length);
      const int64_t fitting = std::min(rest, room[row] / tokens);
      room[row] -= fitting * tokens;
      rest -= fitting;
    }
  }
  return static_cast<int64_t>(room.size());
}

RowContent pack(const spec::Job& job) {
  const auto shares = cut_lengths(job, 1);
  const int64_t length = job.model.sequence_length;
  // The last row is not full: of 512 it is a small part.
  constexpr double enough_rows = 512;
  const double sample = enough_rows * as_real(length) / moments_of(shares).mean;
  std::map<int64_t, int64_t> counts;
  RowContent content{.records = 0};
  for (const auto& [tokens, share] : shares) {
    const auto count = static_cast<int64_t>(std::llround(share * sample));
    counts[tokens] = count;
    content.records += as_real(count);
    content.tokens += as_real(count) * as_real(tokens);
    content.squares += as_real(count) * as_real(tokens) * as_real(tokens);
  }
  const double rows = as_real(std::max<int64_t>(1, count_rows(counts, length)));
  return {content.records / rows, content.tokens / rows, content.squares / rows};
}

}  // namespace

RowShape row_shape(const spec::Job& job) {
  const int64_t whole = job.model.sequence_length;
  const RowShape full{whole, whole, as_real(whole) * as_real(whole)};
  if (!job.records || job.plan.record_layout == spec::RecordLayout::padded) return full;
  if (job.plan.record_layout == spec::RecordLayout::longest)
    return rows_as_long_as_the_longest(job);
  const Moments moments = moments_of(cut_lengths(job, 1));
  return {whole, whole, as_real(whole) * moments.square / moments.mean};
}

RowContent row_content(const spec::Job& job) {
  const double whole = as_real(job.model.sequence_length);
  if (!job.records) return {1, whole, whole * whole};
  if (job.plan.record_layout == spec::RecordLayout::packed) return pack(job);
  const Moments moments = moments_of(cut_lengths(job, 1));
  return {1, moments.mean, moments.square};
}

}  // namespace triplepoint::workload
