// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/flow_simulation.h"

#include <algorithm>
#include <limits>
#include <set>

#include <doctest/doctest.h>

#include "triplepoint/sim/jobs_testing.h"

namespace triplepoint::sim {
namespace {

using doctest::Approx;

constexpr BytesPerSecond nic = 10 * unit::GB / unit::s;
constexpr Seconds wire_time = 100 * unit::us, latency = 20 * unit::us;
constexpr auto both_modes = {SendMode::blocking, SendMode::overlapped};

/// 1 MB over link 0, which it can fill.
Boundary full_speed() {
  return {
      .bytes_per_rank = 1 * unit::MB, .latency = latency, .transfer = wire_time, .links = {{0, 1}}};
}

/// Replicas that send one tensor each, the r-th `spacing` after the one before.
TestJob single_sends(int replicas, Seconds spacing) {
  TestJob job;
  job.capacities = {nic};
  for (int r = 0; r < replicas; ++r)
    add_pipeline(job, workload::build_forward_schedule(2, 1, 1), 1, 1 * unit::ms + r * spacing, {},
                 full_speed());
  return job;
}

Seconds sent(const std::vector<StageTimeline>& pipeline) {
  return pipeline[0].actions[0].sent;
}

TEST_CASE("replicas that send over one NIC at the same moment take as many times its wire time") {
  for (const int replicas : {1, 2, 3, 7}) {
    const auto timelines = single_sends(replicas, {}).timelines(SendMode::blocking);
    for (const auto& pipeline : timelines)
      CHECK((sent(pipeline) - latency) / wire_time == Approx(replicas));
  }
}

TEST_CASE("sends that follow each other without meeting take their time alone") {
  const TestJob job = single_sends(3, wire_time + 1 * unit::us);
  for (const auto& pipeline : job.timelines())
    CHECK(sent(pipeline) / (latency + wire_time) == Approx(1));
}

TEST_CASE("a send that meets another halfway takes half as long again") {
  // The first flows alone for half of its data, then at half rate; so does the second at its end.
  for (const auto& pipeline : single_sends(2, 0.5 * wire_time).timelines())
    CHECK((sent(pipeline) - latency) / wire_time == Approx(1.5));
}

TEST_CASE("one more sender on a link never makes another's send shorter") {
  for (int replicas = 1; replicas < 6; ++replicas) {
    const Seconds spacing = 0.2 * wire_time;
    const auto few = single_sends(replicas, spacing).timelines();
    const auto more = single_sends(replicas + 1, spacing).timelines();
    for (size_t p = 0; p < few.size(); ++p)
      CHECK(sent(more[p]) >= sent(few[p]) - 1 * unit::ns);
  }
}

/// Replicas of a 1F1B pipeline which all cross the same NIC.
TestJob replicas_of_a_pipeline(int replicas) {
  TestJob job;
  job.capacities = {nic};
  for (int r = 0; r < replicas; ++r)
    add_pipeline(job, workload::build_schedule(spec::Schedule::one_f_one_b, 4, 8, 1), 1,
                 1 * unit::ms, 2 * unit::ms, full_speed());
  return job;
}

TEST_CASE("equal replicas stay equal, and one more never makes them faster") {
  Seconds before;
  for (const int replicas : {1, 2, 3, 6}) {
    const auto timelines = replicas_of_a_pipeline(replicas).timelines();
    for (const auto& pipeline : timelines)
      CHECK(same_bits(pipeline, timelines.front()));
    CHECK(finish_of(timelines.front()) > before);
    before = finish_of(timelines.front());
  }
}

TEST_CASE("on unshared links flows take the fixed times to the last bit") {
  for (uint64_t seed = 0; seed < 60; ++seed)
    for (const SendMode mode : both_modes) {
      CAPTURE(seed);
      TestJob job = random_job(seed);
      // Every boundary has its own links, of more or less than it could use.
      Rng rng(seed);
      job.capacities.clear();
      for (auto& stages : job.boundaries)
        for (auto& stage : stages)
          for (Boundary* boundary : {&stage.next, &stage.previous}) {
            boundary->links = {{static_cast<int32_t>(job.capacities.size()), 2}};
            job.capacities.push_back(rng.between(2, 60) * unit::GB / unit::s);
          }
      REQUIRE(job.wiring(mode).classes().empty());
      REQUIRE_FALSE(job.wiring(mode, FlowChoice::everywhere).classes().empty());
      const auto fixed = job.timelines(mode), flows = job.timelines(mode, FlowChoice::everywhere);
      for (size_t p = 0; p < fixed.size(); ++p)
        CHECK(same_bits(fixed[p], flows[p]));
    }
}

TEST_CASE("links that cannot bind can be left out: the times are the same") {
  for (uint64_t seed = 0; seed < 60; ++seed)
    for (const SendMode mode : both_modes) {
      CAPTURE(seed);
      const TestJob job = random_job(seed);
      const auto chosen = job.timelines(mode), all = job.timelines(mode, FlowChoice::everywhere);
      for (size_t p = 0; p < chosen.size(); ++p)
        CHECK(finish_of(chosen[p]) / finish_of(all[p]) == Approx(1).epsilon(1e-9));
    }
}

/// What a stage's sends put on a link, and from when to when they flow.
struct LinkLoad {
  Bytes bytes;
  std::vector<std::pair<Seconds, Seconds>> flows;
};

void add_sends(const std::vector<ActionTimes>& actions, const StageBoundaries& boundaries,
               std::vector<LinkLoad>& links) {
  for (const ActionTimes& action : actions) {
    if (action.sent == Seconds()) continue;
    const bool forward = action.action.kind == workload::ActionKind::forward;
    const Boundary& boundary = forward ? boundaries.next : boundaries.previous;
    const Seconds arrival = arrival_of(action);
    for (const LinkUse& use : boundary.links) {
      links[as_size(use.link)].bytes += use.ranks * boundary.bytes_per_rank;
      links[as_size(use.link)].flows.emplace_back(arrival - action.sent + boundary.latency,
                                                  arrival);
    }
  }
}

TEST_CASE("no link carries more than it can while something flows over it") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const TestJob job = random_job(seed);
    const auto timelines = job.timelines(SendMode::blocking, FlowChoice::everywhere);
    std::vector<LinkLoad> links(job.capacities.size());
    for (size_t p = 0; p < timelines.size(); ++p)
      for (size_t s = 0; s < timelines[p].size(); ++s)
        add_sends(timelines[p][s].actions, job.boundaries[p][s], links);
    for (size_t l = 0; l < links.size(); ++l) {
      std::ranges::sort(links[l].flows);
      Seconds busy, until;
      for (const auto& [begin, end] : links[l].flows) {
        busy += std::max(Seconds(), end - std::max(begin, until));
        until = std::max(until, end);
      }
      CHECK(links[l].bytes <= (1 + 1e-8) * (job.capacities[l] * busy));
    }
  }
}

TEST_CASE("pipelines in another order give the same timelines, to the last bit") {
  int with_flows = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    const TestJob job = random_job(seed);
    if (!job.wiring().classes().empty()) ++with_flows;
    TestJob turned = job;
    std::rotate(turned.pipelines.begin(), turned.pipelines.begin() + 1, turned.pipelines.end());
    std::rotate(turned.boundaries.begin(), turned.boundaries.begin() + 1, turned.boundaries.end());
    const auto timelines = job.timelines(), again = job.timelines(), other = turned.timelines();
    for (size_t p = 0; p < timelines.size(); ++p) {
      CHECK(same_bits(timelines[p], again[p]));
      CHECK(same_bits(timelines[p], other[(p + timelines.size() - 1) % timelines.size()]));
    }
  }
  CHECK(with_flows > 20);  // else the jobs say nothing about sharing
}

TEST_CASE(
    "in a blocking schedule what a stage waits, works and sends fills its time, shared links or "
    "not") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const TestJob job = random_job(seed);
    for (const auto& pipeline : job.timelines())
      for (const StageTimeline& stage : pipeline)
        CHECK((job.rules.start + stage.waited + stage.worked + stage.sent) / stage.finish ==
              Approx(1));
  }
}

/// One tensor that starts at a known time, for the slow reference.
struct NaiveFlow {
  perf::Flow path;
  double begin = 0, bytes = 0, arrival = 0;
  bool done = false;
};

/// All rates anew at every event, events found by scanning all flows.
void schedule_by_passes(std::vector<NaiveFlow>& flows,
                        const std::vector<BytesPerSecond>& capacities) {
  double now = 0;
  const auto open = [](const NaiveFlow& flow) { return !flow.done; };
  while (std::ranges::any_of(flows, open)) {
    std::vector<NaiveFlow*> active;
    std::vector<perf::Flow> paths;
    double next = std::numeric_limits<double>::infinity();
    for (NaiveFlow& flow : flows) {
      if (flow.done) continue;
      if (flow.begin > now) {
        next = std::min(next, flow.begin);
      } else {
        active.push_back(&flow);
        paths.push_back(flow.path);
      }
    }
    const std::vector<BytesPerSecond> rates = perf::fair_rates(paths, capacities);
    for (size_t f = 0; f < active.size(); ++f)
      next = std::min(next, now + active[f]->bytes / rates[f].in_base_units());
    for (size_t f = 0; f < active.size(); ++f) {
      active[f]->bytes -= (next - now) * rates[f].in_base_units();
      if (active[f]->bytes > 1e-3) continue;
      active[f]->done = true;
      active[f]->arrival = next;
    }
    now = next;
  }
}

TEST_CASE("flows arrive when a naive solution of all rates at every event says so") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    TestJob job;
    const int64_t links = 1 + rng.below(4);
    for (int64_t l = 0; l < links; ++l)
      job.capacities.push_back(rng.between(5, 20) * unit::GB / unit::s);
    std::vector<NaiveFlow> naive;
    for (int64_t f = 1 + rng.below(8); f > 0; --f) {
      const auto first = static_cast<int32_t>(rng.below(links));
      const auto second = static_cast<int32_t>(rng.below(links));
      const Boundary boundary{.bytes_per_rank = rng.between(1, 5) * unit::MB,
                              .latency = rng.between(0, 100) * unit::us,
                              .transfer = rng.between(0.1, 0.6) * unit::ms,
                              .links = {{first, 1}, {second, 2}}};
      const Seconds work = rng.between(0, 0.5) * unit::ms;
      add_pipeline(job, workload::build_forward_schedule(2, 1, 1), 1, work, {}, boundary);
      naive.push_back({.path = {.links = {first, second, second},
                                .own_limit = boundary.bytes_per_rank / boundary.transfer},
                       .begin = (work + boundary.latency) / unit::s,
                       .bytes = boundary.bytes_per_rank / unit::B});
    }
    schedule_by_passes(naive, job.capacities);
    const auto timelines = job.timelines();
    for (size_t p = 0; p < timelines.size(); ++p)
      CHECK(arrival_of(timelines[p][0].actions[0]) / unit::us ==
            Approx(naive[p].arrival * 1e6).epsilon(1e-8));
  }
}

struct Network {
  std::vector<FlowClass> classes;
  std::vector<BytesPerSecond> capacities;
};

Network random_network(Rng& rng) {
  Network network;
  const int64_t links = 1 + rng.below(6);
  for (int64_t l = 0; l < links; ++l)
    network.capacities.push_back(rng.between(1, 10) * unit::GB / unit::s);
  for (int64_t c = 1 + rng.below(8); c > 0; --c) {
    FlowClass flows{.limit = rng.between(0.2e9, 2e9)};
    std::set<int32_t> used{static_cast<int32_t>(rng.below(links)),
                           static_cast<int32_t>(rng.below(links))};
    for (const int32_t link : used)
      flows.links.push_back({link, static_cast<int32_t>(1 + rng.below(3))});
    network.classes.push_back(flows);
  }
  return network;
}

/// All flows at once, each rank named.
std::vector<double> solve_all(const Network& network, const std::vector<int32_t>& counts) {
  std::vector<perf::Flow> flows;
  for (size_t c = 0; c < counts.size(); ++c) {
    perf::Flow flow{.own_limit = BytesPerSecond(network.classes[c].limit)};
    for (const LinkUse& use : network.classes[c].links)
      flow.links.insert(flow.links.end(), as_size(use.ranks), use.link);
    flows.insert(flows.end(), as_size(counts[c]), flow);
  }
  const std::vector<BytesPerSecond> rates = perf::fair_rates(flows, network.capacities);
  std::vector<double> by_class;
  size_t flow = 0;
  for (const int32_t count : counts) {
    by_class.push_back(count > 0 ? rates[flow].in_base_units() : 0);
    flow += as_size(count);
  }
  return by_class;
}

TEST_CASE("rates of flows that come and go are those of all flows solved anew") {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    const Network network = random_network(rng);
    FlowRates rates(network.classes, network.capacities);
    std::vector<int32_t> counts(network.classes.size(), 0);
    for (int event = 0; event < 60; ++event) {
      for (int64_t changes = 1 + rng.below(2); changes > 0; --changes) {
        const auto c = as_size(rng.below(static_cast<int64_t>(counts.size())));
        const bool add = counts[c] == 0 || (counts[c] < 4 && rng.below(2) == 0);
        counts[c] += add ? 1 : -1;
        add ? rates.add(static_cast<int32_t>(c)) : rates.remove(static_cast<int32_t>(c));
      }
      rates.resolve();
      const std::vector<double> expected = solve_all(network, counts);
      for (size_t c = 0; c < counts.size(); ++c)
        CHECK(rates.rate(static_cast<int32_t>(c)) == Approx(expected[c]).epsilon(1e-8));
    }
  }
}

TEST_CASE("a change names the classes that it slows down or speeds up, and no others") {
  const BytesPerSecond nic = 10 * unit::GB / unit::s;
  const std::vector<FlowClass> classes{{.links = {{0, 1}}, .limit = 8e9},
                                       {.links = {{0, 1}}, .limit = 8e9},
                                       {.links = {{1, 1}}, .limit = 8e9}};
  const std::vector<BytesPerSecond> capacities{nic, nic};
  FlowRates rates(classes, capacities);
  const auto changed = [&] {
    const auto named = rates.resolve();
    return std::set<int32_t>(named.begin(), named.end());
  };
  rates.add(0);
  rates.add(2);
  CHECK(changed() == std::set<int32_t>{0, 2});
  rates.add(1);
  CHECK(changed() == std::set<int32_t>{0, 1});
  rates.remove(0);
  CHECK(changed() == std::set<int32_t>{1});
  CHECK(rates.rate(1) == 8e9);
}

TEST_CASE("slots come out of the event queue in the order of their latest times") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(seed);
    EventQueue queue(20);
    std::vector<std::pair<double, int32_t>> expected(20);
    for (int round = 0; round < 3; ++round)
      for (int32_t slot = 0; slot < 20; ++slot) {
        const auto time = as_real(rng.below(15));
        expected[as_size(slot)] = {time, slot};
        queue.set(slot, time * unit::s);
      }
    std::ranges::sort(expected);
    for (const auto& [time, slot] : expected) {
      CHECK(queue.next_time() == time * unit::s);
      CHECK(queue.pop() == slot);
    }
    CHECK(queue.empty());
  }
}

}  // namespace

}  // namespace triplepoint::sim
