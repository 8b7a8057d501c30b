// SPDX-License-Identifier: Apache-2.0
// marks_dump FOLDER: the marks that lie in a folder, a line of JSON each. For tests.
#include <cstdio>

#include "triplepoint/base/json.h"

#include "triplepoint/mark/reader.h"

namespace triplepoint::mark {
namespace {

const char* name_of(EventKind kind) {
  static const char* const names[] = {"step_begin", "step_end", "region_begin",
                                      "region_end", "span",     "value"};
  return names[static_cast<std::size_t>(kind)];
}

Json as_json(const Event& event, const Process& process) {
  return {{"kind", name_of(event.kind)},
          {"process", event.process},
          {"rank", process.rank.value_or(-1)},
          {"world_size", process.world_size.value_or(-1)},
          {"thread", event.thread},
          {"begin_ns", event.begin_ns},
          {"end_ns", event.end_ns},
          {"number", event.number},
          {"name", event.name},
          {"group", event.group},
          {"bytes", event.bytes},
          {"flops", event.flops},
          {"value", event.value}};
}

int dump(const Path& folder) {
  Result<Reader> reader = Reader::watch(folder);
  if (!reader) {
    std::fprintf(stderr, "%s\n", reader.error().what.c_str());
    return 1;
  }
  reader->drain([&](const Event& event) {
    const Process& process = reader->processes()[static_cast<std::size_t>(event.process)];
    std::puts(as_json(event, process).dump().c_str());
  });
  return 0;
}

}  // namespace
}  // namespace triplepoint::mark

int main(int argc, char** argv) {
  return argc == 2 ? triplepoint::mark::dump(argv[1]) : 2;
}
