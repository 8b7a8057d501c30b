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
  job = 1,         // a job told by flags, with its layout
  threads = 2,     // verbs that simulate, search or read many files
  format = 4,      // verbs that print results once
  sensors = 8,     // verbs that read this node
  faults = 16,     // verbs that simulate a job over time
  bill = 32,       // verbs that answer with one job's cost
  listening = 64,  // verbs that listen on a socket
  output = 128,    // verbs that write files of their results
  with = 256,      // verbs that predict jobs: by own runs and parameters
  scope = 512      // verbs that weigh energy of a job by flags; runs and studies state their PUE
};

struct Row {
  std::string_view verb;
  unsigned flags = none;
};
constexpr Row table[] = {
    {"characterize", threads | format | output | with},
    {"simulate", job | threads | format | faults | bill | output | with | scope},
    {"plan", job | threads | format | bill | output | with | scope},
    {"steer", job | threads | format | faults | with | scope},
    {"place", job | threads | format | output | with | scope},
    {"validate", threads | format | output | with},
    {"calibrate", threads | format | output},
    {"import", format | output},
    {"export", format | output},
    {"record", sensors | output},    // standard output is the command's
    {"train", job | output | with},  // prints its steps as they come; -o has the results
    {"trace", threads | format | output},
    {"report", threads | format | output},
    {"why", threads | format | output | with},
    {"compare", threads | format | output},
    {"serve", listening},
    {"explore", job | output | with},
    {"snapshot", sensors | format},
    {"exporter", sensors | listening},
    {"doctor", sensors | format},
    {"discover", format | output},  // of the sensors only --devices
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
  note(output, Arguments().flag("--output", "", "", {}));
  note(with, Arguments().flag("--with", "", "", {}));
  note(scope, ScopeFlags().arguments());
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
