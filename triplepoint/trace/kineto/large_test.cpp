// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "triplepoint/trace/kineto/kineto.h"
#include "triplepoint/trace/kineto/samples_testing.h"

namespace triplepoint::trace::kineto {
namespace {

constexpr uint64_t four_gigabytes = uint64_t{4} << 30;

Result<Trace> read_endless(Bytes limit) {
  Input input = Input::of(endless_sample({}, four_gigabytes), "endless.json").value();
  return read_kineto(input, {.memory_limit = limit});
}

struct Child {
  bool succeeded = false;
  double peak_bytes = 0;
};

/// Runs in its own process, with separate memory.
Child in_a_child(const std::function<bool()>& task) {
  const pid_t child = fork();
  if (child == 0) _exit(task() ? 0 : 1);
  int status = 0;
  struct rusage used = {};
  REQUIRE(wait4(child, &status, 0, &used) == child);
  return {WIFEXITED(status) && WEXITSTATUS(status) == 0, 1024.0 * as_real(used.ru_maxrss)};
}

TEST_CASE("four gigabytes are read within a limit of one, every device span of them") {
  const Child child = in_a_child([] {
    const auto trace = read_endless(1e9 * unit::B);
    if (!trace || trace->skipped.events != 0 || trace->skipped.notes.empty()) return false;
    int64_t device_spans = 0, steps = 0;
    for (const run::Span& span : trace->timeline.spans) {
      const run::SpanType& type = trace->timeline.types[as_size(span.type)];
      device_spans += type.stream != run::Stream::host;
      steps += type.kind == run::SpanKind::step;
    }
    const SampleShape shape;
    return steps > 10'000 && device_spans == steps * shape.layers * (shape.ops_per_layer + 1) &&
           !run::find_fault(trace->timeline);
  });
  CHECK(child.succeeded);
  CHECK(child.peak_bytes < 1.05e9);
}

TEST_CASE("what does not fit at all is a sentence, not a growing process") {
  const Child child = in_a_child([] {
    const auto trace = read_endless(50e6 * unit::B);
    return !trace && trace.error().what.find("memory limit") != std::string::npos;
  });
  CHECK(child.succeeded);
  CHECK(child.peak_bytes < 70e6);
}

}  // namespace
}  // namespace triplepoint::trace::kineto
