// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace_report/hang_table.h"

#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace triplepoint::trace_report {
namespace {

using metrics::IssuePart;
using metrics::PendingCollective;

DataCell ranks_cell(const std::vector<int32_t>& ranks, const char* none) {
  return ranks.empty() ? DataCell(Missing{none})
                       : DataCell(fmt::format("{}", fmt::join(ranks, " ")));
}

/// "started 3, scheduled 1".
std::string states_of(const PendingCollective& pending) {
  std::array<int64_t, run::issue_state_words.size()> counts{};
  for (const IssuePart& part : pending.parts)
    ++counts[static_cast<size_t>(part.state)];
  std::string text;
  for (size_t i = counts.size(); i-- > 0;)
    if (counts[i] > 0)
      text +=
          fmt::format("{}{} {}", text.empty() ? "" : ", ", run::issue_state_words[i], counts[i]);
  return text;
}

std::string calls_of(const PendingCollective& pending) {
  std::vector<std::string> calls;
  for (const IssuePart& part : pending.parts) {
    std::string call = part.elements < 0 ? std::string(part.label)
                                         : fmt::format("{} {}", part.label, part.elements);
    if (std::find(calls.begin(), calls.end(), call) == calls.end()) calls.push_back(call);
  }
  return fmt::format("{}", fmt::join(calls, " / "));
}

}  // namespace

DataTable hang_table(const run::Timeline& timeline, const metrics::HangReport& report) {
  DataTable table{.name = "pending", .title = "What has not ended, by group: who waits for whom"};
  table.columns = {{"group", "group"},
                   {"sequence", "number"},
                   {"call", "call, elements"},
                   {"states", "states"},
                   {"issued_by", "issued by"},
                   {"never_issued", "never by"},
                   {"not_given", "not given"},
                   {"apart_ns", "issued apart us", 1e3, 1},
                   {"frame", "at"}};
  for (const PendingCollective& pending : report.pending) {
    std::vector<int32_t> issued;
    for (const IssuePart& part : pending.parts)
      issued.push_back(part.rank);
    const std::string_view frame = metrics::frame_of_issue(timeline, pending.last_issued().span);
    table.add({timeline.communicators[static_cast<size_t>(pending.communicator)].name,
               pending.sequence, calls_of(pending), states_of(pending), ranks_cell(issued, ""),
               ranks_cell(pending.never, "all given ranks issued it"),
               ranks_cell(pending.unknown, "all ranks are given"), pending.spread(),
               frame.empty() ? DataCell(Missing{"the dump has no frames"})
                             : DataCell(std::string(frame))});
  }
  return table;
}

}  // namespace triplepoint::trace_report
