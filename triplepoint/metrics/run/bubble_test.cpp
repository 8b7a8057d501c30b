// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <doctest/doctest.h>

#include "triplepoint/metrics/metrics.h"

namespace triplepoint::metrics {
namespace {

/// Simulates 1F1B as slots of forward and backward passes; ranks wait inside a send/recv, and at
/// the end of the step inside a global all-reduce, as in NCCL kernels.
class OneForwardOneBackward {
 public:
  /// Passes of stage `slow` take `times` as long.
  OneForwardOneBackward(int stages, int microbatches, int slow = 0, int64_t times = 1)
      : p_(stages), m_(microbatches), slow_(slow), times_(times) {
    run_.timeline.num_ranks = stages;
    run_.timeline.types = {{.name = "gemm", .kind = run::SpanKind::compute},
                           {.name = "send_recv",
                            .kind = run::SpanKind::communication,
                            .collective = spec::Collective::send_recv,
                            .group = spec::GroupKind::pipeline},
                           {.name = "gradient_norm",
                            .kind = run::SpanKind::communication,
                            .collective = spec::Collective::all_reduce,
                            .group = spec::GroupKind::model}};
    // Gaps between the kernels of a pass belong to the host, not to the schedule.
    const auto pass = [](int64_t length) {
      run::PatternPiece half{.repeat = 2, .length = as_real(length) / 2 * unit::ns};
      half.spans = {{.begin = Instant(10), .end = Instant(length / 2), .type = 0}};
      return run::Pattern{.name = "pass", .pieces = {half}};
    };
    run_.timeline.patterns = {pass(forward), pass(backward), pass(times * forward),
                              pass(times * backward)};
  }

  run::Run schedule() {
    std::vector<std::vector<int64_t>> done_forward(rows(), std::vector<int64_t>(columns(), -1));
    auto done_backward = done_forward;
    std::vector<int64_t> now(rows(), 0), next_f(rows(), 0), next_b(rows(), 0);
    for (int left = 2 * p_ * m_; left > 0;) {
      for (int s = 0; s < p_; ++s) {
        const auto i = as_size(s);
        if (next_b[i] == m_) continue;
        const bool runs_forward = next_f[i] < m_ && next_f[i] - next_b[i] < p_ - s;
        const auto mb = as_size(runs_forward ? next_f[i] : next_b[i]);
        int64_t ready = 0;
        if (runs_forward && s > 0) ready = done_forward[i - 1][mb];
        if (!runs_forward && s < p_ - 1) ready = done_backward[i + 1][mb];
        if (ready < 0) continue;
        wait(s, now[i], ready, 1);
        now[i] = std::max(now[i], ready);
        const bool slow = s == slow_;
        run_.timeline.instances.push_back({.begin = Instant(now[i]),
                                           .pattern = (runs_forward ? 0 : 1) + (slow ? 2 : 0),
                                           .rank = s,
                                           .stage = s});
        now[i] += (slow ? times_ : 1) * (runs_forward ? forward : backward);
        (runs_forward ? done_forward : done_backward)[i][mb] = now[i];
        ++(runs_forward ? next_f : next_b)[i];
        --left;
      }
    }
    const int64_t end = *std::ranges::max_element(now);
    for (int s = 0; s < p_; ++s)
      wait(s, now[as_size(s)], end, 2);
    run_.steps = {{.begin = Instant(0), .end = Instant(end), .samples = m_}};
    run::sort(run_.timeline);
    return run_;
  }

  static constexpr int64_t forward = 1000, backward = 2000;

 private:
  size_t rows() const { return as_size(p_); }
  size_t columns() const { return as_size(m_); }
  void wait(int stage, int64_t from, int64_t until, int32_t type) {
    if (until <= from) return;
    run_.timeline.spans.push_back({.begin = Instant(from),
                                   .end = Instant(until),
                                   .type = type,
                                   .rank = stage,
                                   .stage = stage,
                                   .wait = Instant(until) - Instant(from)});
  }

  int p_, m_, slow_;
  int64_t times_;
  run::Run run_;
};

TEST_CASE("the 1F1B bubble takes (p-1) of (m+p-1) slots") {
  for (int stages : {1, 2, 4, 8})
    for (int microbatches : {8, 32}) {
      const Metrics m = measure(OneForwardOneBackward(stages, microbatches).schedule());
      const double closed_form = (stages - 1.0) / (microbatches + stages - 1.0);
      CAPTURE(stages);
      CHECK(m.bubble_fraction.value() == doctest::Approx(closed_form));
      CHECK(m.bottlenecks.empty());
    }
}

TEST_CASE("waiting for a slower stage is no bubble") {
  const int stages = 4, microbatches = 32;
  const double slot = OneForwardOneBackward::forward + OneForwardOneBackward::backward;
  for (const int slow : {0, 1, 3}) {
    CAPTURE(slow);
    const Metrics m = measure(OneForwardOneBackward(stages, microbatches, slow, 5).schedule());
    const double step = m.step_time.value() / unit::ns;
    CHECK(m.bubble_fraction.value() * step <= doctest::Approx((stages - 1) * slot));
    // Three of four ranks wait while the slow one works.
    CHECK(m.parts->waiting / unit::ns ==
          doctest::Approx(microbatches * (5 - 1) * slot * (stages - 1) / stages));
    CHECK(m.parts->total() / unit::ns == doctest::Approx(step));
  }
}

TEST_CASE("waiting for longer transfers of another stage is communication, not lateness") {
  run::Run run = OneForwardOneBackward(4, 32, 1, 5).schedule();
  run.timeline.types.push_back({.name = "all_reduce",
                                .kind = run::SpanKind::communication,
                                .collective = spec::Collective::all_reduce,
                                .group = spec::GroupKind::tensor});
  for (const size_t slow : {2, 3})
    run.timeline.patterns[slow].pieces[0].spans[0].type = 3;
  const Metrics m = measure(run);
  CHECK(m.parts->waiting / unit::ns == doctest::Approx(0));
  CHECK(m.parts->total() / unit::ns == doctest::Approx(m.step_time.value() / unit::ns));
}

TEST_CASE("waiting for data-parallel peers is no bubble") {
  run::Run run = OneForwardOneBackward(4, 8).schedule();
  run.timeline.types[1].group = spec::GroupKind::data;
  run.timeline.types[2].group = spec::GroupKind::data;
  CHECK(measure(run).bubble_fraction.value() == doctest::Approx(0));
}

TEST_CASE("gaps between the kernels of a pass are launch gaps, not bubble") {
  const Metrics m = measure(OneForwardOneBackward(1, 8).schedule());
  CHECK(m.bubble_fraction.value() == doctest::Approx(0));
  CHECK(m.launch_gaps.value() / unit::ns == doctest::Approx(8 * 4 * 10));
  CHECK(m.idle.value() / unit::ns == doctest::Approx(m.launch_gaps.value() / unit::ns));
}

TEST_CASE("if no rank waits inside kernels, idle time between passes is the bubble") {
  run::Run run = OneForwardOneBackward(4, 8).schedule();
  run.timeline.spans.clear();
  CHECK(measure(run).bubble_fraction.value() == doctest::Approx(3.0 / 11));
}

TEST_CASE("idle time is no bubble where neither the job nor the trace names stages") {
  run::Run run = OneForwardOneBackward(4, 8).schedule();
  const Metrics known = measure(run);
  for (run::Span& span : run.timeline.spans)
    span.stage = -1;
  for (auto& instance : run.timeline.instances)
    instance.stage = -1;
  const Metrics unknown = measure(run);
  CHECK_FALSE(unknown.bubble_fraction);
  CHECK(unknown.parts->bubble == Seconds());
  CHECK((unknown.parts->gaps + unknown.parts->waiting) / unit::ns ==
        doctest::Approx((known.parts->gaps + known.parts->bubble) / unit::ns));
}

}  // namespace
}  // namespace triplepoint::metrics
