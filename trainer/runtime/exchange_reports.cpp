// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "trainer/runtime/train.h"

namespace triplepoint::trainer {
namespace {

constexpr size_t pieces = 4;  // of a double: whole numbers of 16 bits, which a float holds exactly

void append(std::vector<float>& numbers, double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  for (size_t piece = 0; piece < pieces; ++piece)
    numbers.push_back(static_cast<float>((bits >> (16 * piece)) & 0xffff));
}

double read(const float*& numbers) {
  uint64_t bits = 0;
  for (size_t piece = 0; piece < pieces; ++piece)
    bits |= static_cast<uint64_t>(*numbers++) << (16 * piece);
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Every number of a report that ranks differ in, in one order.
template <class Report, class Act>
void visit(Report& report, const Act& act) {
  for (auto* table : {&report.traffic, &report.expected})
    for (auto& group : *table)
      for (auto& bytes : group)
        act(bytes);
  for (auto* memory : {&report.memory, &report.expected_memory})
    for (auto& bytes : *memory)
      act(bytes);
  act(report.rank_peak_flops);
}

}  // namespace

std::vector<TrainReport> exchange_reports(Communicator& world, const TrainReport& own) {
  std::vector<float> mine;
  append(mine, static_cast<double>(own.stage));
  visit(own, [&](const double& value) { append(mine, value); });
  std::vector<float> all(mine.size() * static_cast<size_t>(world.size()));
  world.all_gather(mine, all).wait();
  const float* numbers = all.data();
  std::vector<TrainReport> reports(static_cast<size_t>(world.size()));
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    reports[rank].rank = static_cast<int>(rank);
    reports[rank].stage = static_cast<size_t>(read(numbers));
    visit(reports[rank], [&](double& value) { value = read(numbers); });
    reports[rank].all_peak_flops = own.all_peak_flops;
  }
  return reports;
}

}  // namespace triplepoint::trainer
