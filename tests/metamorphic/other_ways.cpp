// SPDX-License-Identifier: Apache-2.0
// The same question asked in another way: in time, by the search, through files.
#include <algorithm>
#include <cmath>
#include <vector>

#include "triplepoint/formats/export.h"
#include "triplepoint/formats/import.h"
#include "triplepoint/search/finalists.h"
#include "triplepoint/sim/simulate.h"
#include "triplepoint/store/store.h"

#include "tests/metamorphic/laws.h"

namespace triplepoint::metamorphic {
namespace {

using Amount = std::optional<double>;

double apart(double a, double b) {
  return a == b ? 0 : std::abs(a - b) / std::max(std::abs(a), std::abs(b));
}
Amount plain_is_detailed(const spec::Job& job, const Outcome& o) {
  const run::Run plain = sim::simulate(job, {.timeline = false});
  return apart(*metrics::measure(plain).step_time / unit::s, *step(o));
}
Amount step_alone(const spec::Job& job, const Outcome& o) {
  return apart(sim::steady_step_time(job) / unit::s, *step(o)) - clock_resolution(o);
}
Amount search_in_full(const spec::Job& job, const Outcome& o) {
  const search::Finalist plan = search::simulate_in_full(job, {});
  return std::max({apart(plan.time, *step(o)), apart(plan.energy, *energy(o)),
                   apart(plan.power_mean, *power(o))});
}
Amount stored_and_read(const spec::Job&, const Outcome& o) {
  const run::Run read = run::from_bytes(run::to_bytes(o.run).value(), "job.run").value();
  const metrics::Metrics m = metrics::measure(read);
  const bool same = m.step_time == o.metrics.step_time && m.energy_j == o.metrics.energy_j &&
                    m.temperature_per_gpu_c == o.metrics.temperature_per_gpu_c &&
                    m.energy_ledger_j == o.metrics.energy_ledger_j &&
                    m.bubble_fraction == o.metrics.bubble_fraction;
  return same ? 0 : 1;
}

struct Settled {
  double step = 0;
  std::vector<double> dies;
};
std::optional<Settled> after_long(const spec::Job& job) {
  constexpr double end = 4000, from = 3600;
  const run::Run run = sim::simulate(job, {.duration = end * unit::s, .timeline = false});
  Settled settled;
  double count = 0;
  for (const run::StepRecord& one : run.steps) {
    if (one.begin < instant_at(from * unit::s)) continue;
    settled.step += (one.end - one.begin) / unit::s;
    ++count;
  }
  if (count == 0) return std::nullopt;
  settled.step /= count;
  for (const run::DeviceSummary& device : run.summaries)
    settled.dies.push_back(*device.die_mean_c);
  return settled;
}
/// Both differences as shares of what is allowed: half a percent of a step, half a kelvin of a die.
Amount long_transient(const spec::Job& job, const Outcome& o) {
  const auto settled = after_long(job);
  if (!settled) return std::nullopt;
  double largest = apart(settled->step, *step(o)) / 0.005;
  for (size_t i = 0; i < settled->dies.size(); ++i)
    largest =
        std::max(largest, std::abs(settled->dies[i] - o.metrics.temperature_per_gpu_c[i]) / 0.5);
  return largest;
}
run::Run first_steps(const spec::Job& job, int64_t steps) {
  return sim::simulate(job, {.steps = steps, .timeline = false});
}
Amount more_steps_begin_alike(const spec::Job& job, const Outcome&) {
  const run::Run few = first_steps(job, 3), more = first_steps(job, 6);
  if (few.steps.size() != 3 || more.steps.size() != 6) return 1;
  return std::equal(few.steps.begin(), few.steps.end(), more.steps.begin()) ? 0 : 1;
}
Amount cold_steps_are_not_slower(const spec::Job& job, const Outcome& o) {
  const run::Run run = first_steps(job, 2);
  const double first = (run.steps.front().end - run.steps.front().begin) / unit::s;
  return first / *step(o) - 1;
}
/// A launch file says nothing of the room.
spec::Job without_room(spec::Job job) {
  job.environment = {};
  return job;
}
Amount read_again(const spec::Job& job, const Result<formats::Imported>& read) {
  if (!read) return 1;
  spec::Job again = read->job;
  again.environment = {};
  return same_bits(outcome_of(without_room(job)), outcome_of(again));
}
Amount by_megatron(const spec::Job& job, const Outcome&) {
  const formats::Exported text = formats::export_megatron_args(without_room(job));
  if (!text.unsupported_settings.empty()) return std::nullopt;
  return read_again(
      job, formats::import_megatron_args(spec::default_library(), text.text, "job.sh", {}));
}
Amount by_nemo(const spec::Job& job, const Outcome&) {
  const formats::Exported text = formats::export_nemo_yaml(without_room(job));
  if (!text.unsupported_settings.empty()) return std::nullopt;
  return read_again(job,
                    formats::import_nemo_yaml(spec::default_library(), text.text, "job.yaml", {}));
}

}  // namespace

const std::vector<Identity>& other_ways() {
  static const std::vector<Identity> all = {
      {"without the timeline the same step", plain_is_detailed},
      {"step alone = simulate's", step_alone},
      {"plan's figures = simulate's", search_in_full},
      {"stored and read: the same metrics", stored_and_read},
      {"3 steps begin as 6 do", more_steps_begin_alike},
      {"a cold step is not slower", cold_steps_are_not_slower},
      {"exported for Megatron and imported", by_megatron},
      {"exported for NeMo and imported", by_nemo},
      {"after an hour: the steady step and dies", long_transient, 1, "0.5 % of a step, 0.5 K", 5}};
  return all;
}

}  // namespace triplepoint::metamorphic
