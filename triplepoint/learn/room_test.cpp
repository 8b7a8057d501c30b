// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/learn/room.h"

#include <cmath>

#include <doctest/doctest.h>

#include "triplepoint/base/must_testing.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/sim/device_phase.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::learn {
namespace {

constexpr RoomPriors priors = {
    .inlet_k = 4, .slot_k = 3, .board = 0.03, .noise_k = 0.5, .power = 0.1};

spec::Job job_of(int tensor, int pipeline) {
  const auto library = must(spec::require_library());
  spec::Job job = *spec::parse_job(
      library,
      fmt::format("model = \"llama3-70b\"\ncluster = \"hgx-h200\"\nnodes = 2\n[plan]\n"
                  "tensor_parallel_size = {}\npipeline_parallel_size = {}\n"
                  "global_batch_size = 32\nsequence_parallel = true\n",
                  tensor, pipeline),
      "test");
  return job;
}

enum class Powers { read, unknown };

/// What sensors show of the job.
HeatRun read_of(const spec::Job& asked, const spec::Job& real, Powers powers = Powers::read) {
  HeatRun seen{.job = asked};
  const run::Run run = sim::simulate(real, {.timeline = false});
  for (std::size_t d = 0; d < run.summaries.size(); ++d)
    seen.devices.push_back(
        {.node = static_cast<int64_t>(d) / 8,
         .local = static_cast<int64_t>(d) % 8,
         .temperature_c = *run.summaries[d].die_mean_c,
         .power_w = powers == Powers::read ? run.summaries[d].power_mean_w : std::nullopt});
  return seen;
}

double rms_between(const spec::Job& a, const spec::Job& b) {
  const HeatRun of_a = read_of(a, a), of_b = read_of(b, b);
  double sum = 0;
  for (std::size_t d = 0; d < of_a.devices.size(); ++d)
    sum += std::pow(of_a.devices[d].temperature_c - of_b.devices[d].temperature_c, 2);
  return std::sqrt(sum / as_real(of_a.devices.size()));
}

/// Another hall: warmer, two slots in worse air, one loose heat sink.
spec::Job real_room(spec::Job job) {
  job.cluster.chassis.inlet = job.cluster.chassis.inlet + 5 * unit::K;
  job.cluster.chassis.slots[1].inlet_offset += 4 * unit::K;
  job.cluster.chassis.slots[6].inlet_offset -= 3 * unit::K;
  job.environment.device_resistances.assign(16, 1.0);
  job.environment.device_resistances[13] = 1.6;
  return job;
}

TEST_CASE("what one layout teaches of inlet, slots and boards holds for another") {
  const spec::Job known = job_of(8, 2), other = job_of(4, 4);
  const auto room = must(learn_room(priors, {read_of(known, real_room(known))}));
  CHECK(room.devices == 16);
  CHECK(room.before_k > 5);
  CHECK(room.after_k < 0.5);
  CHECK(room.inlet_k == doctest::Approx(5 + 1.0 / 8).epsilon(0.2));
  CHECK(room.slots_k[1] > 3);
  CHECK(room.slots_k[6] < -2.5);
  CHECK(room.boards[13] == doctest::Approx(1.6).epsilon(0.1));
  const double shipped = rms_between(other, real_room(other));
  CHECK(rms_between(in_room(other, room), real_room(other)) < 0.2 * shipped);
  // A typical node has typical boards, not those of the first node.
  spec::Job typical = in_room(other, room);
  const Watts with_boards = sim::typical_node_power(typical, 500 * unit::W);
  typical.environment.device_resistances.clear();
  CHECK(with_boards == sim::typical_node_power(typical, 500 * unit::W));
}

TEST_CASE("without powers the mean may be the simulated power's fault and is believed less") {
  const spec::Job job = job_of(8, 2);
  const auto read = learn_room(priors, {read_of(job, real_room(job))});
  const auto unknown = learn_room(priors, {read_of(job, real_room(job), Powers::unknown)});
  REQUIRE((read && unknown));
  CHECK(unknown->inlet_k > 0);
  CHECK(unknown->inlet_k < read->inlet_k);
  CHECK(unknown->slots_k[1] == doctest::Approx(read->slots_k[1]).epsilon(0.2));
}

TEST_CASE("a stated inlet stands, and other machines stay as they are") {
  spec::Job job = job_of(8, 2);
  const auto room = must(learn_room(priors, {read_of(job, real_room(job))}));
  job.environment.ambient = Celsius(18);
  CHECK(in_room(job, room).chassis().inlet == Celsius(18));
  spec::Job elsewhere = job;
  elsewhere.cluster.name = "dgx-h200";
  CHECK(in_room(elsewhere, room) == elsewhere);
  CHECK(!learn_room(priors, {}));
}

TEST_CASE("one node's temperatures stand for every node, and teach slots, not boards") {
  const spec::Job job = job_of(8, 2);
  HeatRun seen = read_of(job, real_room(job));
  seen.devices.resize(8);
  const auto room = must(learn_room(priors, {seen}));
  CHECK(room.slots_k[1] > 3);
  for (const double board : room.boards)
    CHECK(board == doctest::Approx(1).epsilon(0.05));
}

}  // namespace
}  // namespace triplepoint::learn
