// SPDX-License-Identifier: Apache-2.0
// Which verb has which of the shared flags: the same flag exists wherever it makes sense.
#include "triplepoint/flags/shared_flags.h"

#include <algorithm>
#include <string_view>

#include <doctest/doctest.h>

#include "triplepoint/app/record_flags.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/job_flags.h"

namespace triplepoint::cli {
namespace {

enum Shared : unsigned {
  none = 0,
  job = 1,        // a job told by flags, with its layout
  threads = 2,    // verbs that simulate, search or read many files
  format = 4,     // verbs that print results once
  sensors = 8,    // verbs that read this node
  faults = 16,    // verbs that simulate a job over time
  bill = 32,      // verbs that answer with one job's cost
  listening = 64  // verbs that listen on a socket
};

struct Row {
  std::string_view verb;
  unsigned flags = none;
};
constexpr Row table[] = {
    {"characterize", threads | format},
    {"simulate", job | threads | format | faults | bill},
    {"plan", job | threads | format | bill},
    {"steer", job | threads | format | faults},
    {"place", job | threads | format},
    {"validate", threads | format},
    {"calibrate", threads | format},
    {"import", format},
    {"export", format},
    {"record", sensors},  // prints a summary on standard error: standard output is the command's
    {"train", job},       // prints its steps as they come; -o has the results
    {"trace", threads | format},
    {"report", threads | format},
    {"why", threads | format},
    {"compare", threads | format},
    {"serve", listening},
    {"explore", job},
    {"snapshot", sensors | format},
    {"exporter", sensors | listening},
    {"doctor", sensors | format},
    {"discover", format},  // of the sensors only --devices: it reads no power and no counters
    {"show", format},
    {"schema", none},      // prints JSON
    {"completion", none},  // prints a script
};

bool has_all(const Arguments& arguments, const Arguments& group) {
  return std::ranges::all_of(group, [&](const Argument& wanted) {
    const std::string name = wanted.names.substr(0, wanted.names.find(','));
    return !wanted.is_flag() || std::ranges::any_of(arguments, [&](const Argument& each) {
      return has_name(each, name);
    });
  });
}

unsigned shared_flags_of(const Arguments& arguments) {
  unsigned found = none;
  const auto note = [&](Shared flag, const Arguments& group) {
    if (has_all(arguments, group)) found |= flag;
  };
  note(job, JobFlags().arguments());
  note(threads, Arguments().add(ThreadsFlag("").argument()));
  note(format, Arguments().add(FormatFlag().argument()));
  note(sensors, app::SensorFlags().arguments());
  note(faults, FaultFlags().arguments());
  note(bill, BillFlags().arguments());
  note(listening, ListenFlags("").arguments());
  return found;
}

TEST_CASE("each verb has the shared flags that make sense for it") {
  for (const CommandEntry& entry : commands()) {
    CAPTURE(entry.name);
    const auto* row = std::ranges::find(table, entry.name, &Row::verb);
    REQUIRE(row != std::end(table));
    CHECK(shared_flags_of(entry.make()->arguments()) == row->flags);
  }
}

}  // namespace
}  // namespace triplepoint::cli
