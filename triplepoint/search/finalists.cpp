// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/finalists.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "triplepoint/base/parallel.h"

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/sim/device_phase.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::search {
namespace {

bool dominates(const Finalist& a, const Finalist& b) {
  const std::array<std::pair<double, double>, 4> pairs = {
      std::pair{a.time, b.time}, std::pair{a.scope_energy, b.scope_energy},
      std::pair{a.power_peak, b.power_peak}, std::pair{a.hottest, b.hottest}};
  const bool never_worse =
      std::ranges::all_of(pairs, [](const auto& p) { return p.first <= p.second; });
  const bool once_better =
      std::ranges::any_of(pairs, [](const auto& p) { return p.first < p.second; });
  return never_worse && once_better;
}

Finalist simulate(const spec::Job& job, Candidate candidate, const Objective& objective) {
  const run::Run run = sim::simulate(job, {.timeline = false, .causes = false});
  const metrics::Metrics measured = metrics::measure(run);
  Finalist plan;
  plan.candidate = std::move(candidate);
  plan.time = measured.step_time.value_or(Seconds()) / unit::s;
  plan.energy = measured.energy_j.value_or(0);
  plan.tokens_per_second = measured.tokens_per_second.value_or(0);
  plan.mfu = measured.mfu.value_or(0);
  plan.power_mean = measured.power_mean_w.value_or(0);
  plan.power_peak = measured.power_peak_w.value_or(0);
  plan.hottest = measured.temperature_peak_c.value_or(0);
  plan.throttled = throttled_share(measured).value_or(0);
  plan.node_power = sim::typical_node_power(job, plan.power_mean * unit::W) / unit::W;
  plan.scope_energy = energy_in(objective.scope, job, plan.energy, plan.node_power, plan.time);
  plan.value = objective.value_of(plan.time, plan.scope_energy);
  if (const auto& shutdown = run.shutdown) {  // refused below; its time is the estimate's
    plan.time = plan.candidate.step.time;
    plan.hottest = shutdown->die_c;
  }
  plan.terms = plan.candidate.step.terms;
  // What single boards and heat add to the mean device's step is time at lower clocks.
  plan.terms[as_size(Term::throttling)] += plan.time - plan.candidate.step.time;
  return plan;
}

}  // namespace

std::string over_limit(const Finalist& plan, const Limits& limits, const spec::Job& job) {
  const spec::Cluster& cluster = job.cluster;
  const auto nodes = as_real(cluster.num_nodes);
  const auto says = [](const char* what, double value, double limit, const char* unit_name) {
    return fmt::format("{} {:.4g} {} is above {:.4g} {}", what, value, unit_name, limit, unit_name);
  };
  const auto& governor = cluster.gpu.governor;
  if (governor && governor->shutdown_temperature &&
      plan.hottest >= governor->shutdown_temperature->degrees())
    return fmt::format("a GPU would reach {:.0f} °C at its lowest clock and shut down",
                       plan.hottest);
  if (limits.temperature && plan.hottest > limits.temperature->degrees())
    return says("the hottest die's", plan.hottest, limits.temperature->degrees(), "°C");
  if (limits.device_power && plan.power_peak > *limits.device_power / unit::W)
    return says("a GPU's peak of", plan.power_peak, *limits.device_power / unit::W, "W");
  if (limits.node_power && plan.node_power > *limits.node_power / unit::W)
    return says("a node's", plan.node_power / 1e3, *limits.node_power / unit::kW, "kW");
  const double total = nodes * plan.node_power;
  if (limits.total_power && total > *limits.total_power / unit::W)
    return says("the nodes'", total / 1e3, *limits.total_power / unit::kW, "kW");
  const double site = job.environment.pue.value_or(1) * total;
  if (limits.site_power && site > *limits.site_power / unit::W)
    return says("the site's", site / 1e3, *limits.site_power / unit::kW, "kW");
  return {};
}

Loss largest_loss(const Finalist& plan, const Finalist& against) {
  Loss loss{Term::compute, plan.terms[0] - against.terms[0]};
  for (size_t t = 1; t < term_count; ++t)
    if (plan.terms[t] - against.terms[t] > loss.seconds)
      loss = {static_cast<Term>(t), plan.terms[t] - against.terms[t]};
  return loss;
}

std::string_view reason_of(Term term) {
  return word_for<Term::overhead>(
      {"slower kernels", "recomputation", "exposed communication", "launch", "throttling",
       "exposed communication (pipeline)", "bubble", "exposed communication (data)", "optimizer",
       "overhead"},
      term);
}

void mark_front(std::vector<Finalist>& plans) {
  for (Finalist& plan : plans)
    plan.on_front =
        std::ranges::none_of(plans, [&](const Finalist& other) { return dominates(other, plan); });
}

spec::Job job_of(const spec::Job& base, const Finalist& plan) {
  spec::Job job = base;
  job.plan = plan.candidate.plan;
  if (plan.power_limit) job.environment.power_limit = plan.power_limit;
  return job;
}

Finalist simulate_in_full(const spec::Job& job, const Objective& objective) {
  return simulate(job, evaluate_plan(job, objective), objective);
}

namespace {

bool has_no_context(const Finalist& plan) {
  return plan.candidate.layout.context == 1;
}
bool is_fsdp(const Finalist& plan) {
  return plan.candidate.plan.sharding == spec::Sharding::parameters;
}
/// How a plan divides its model: chunk counts of one layout are one kind.
auto division_of(const Finalist& plan) {
  const Layout& layout = plan.candidate.layout;
  return std::tuple(layout.tensor, layout.pipeline, layout.context, layout.expert, layout.data,
                    is_fsdp(plan));
}
/// Along how many dimensions but data a plan divides its model.
int dimensions(const Finalist& plan) {
  const Layout& layout = plan.candidate.layout;
  return (layout.tensor > 1) + (layout.pipeline > 1) + (layout.chunks > 1) + (layout.context > 1) +
         (layout.expert > 1) + (layout.expert_tensor != layout.tensor) + is_fsdp(plan);
}

/// Moves the best of each kind among the first `top` of a ranking, and says what they are best of.
void show_kinds(std::vector<Finalist>& ranked, size_t top) {
  if (ranked.empty()) return;
  const double worst = worth_showing * ranked.front().value;
  const auto last =
      std::ranges::find_if(ranked, [&](const Finalist& plan) { return plan.value > worst; });
  std::set<size_t> shown = {0};
  const auto show = [&](auto best, const char* kind) {
    if (best == last) return;
    std::string& kinds = best->kind;
    kinds += (kinds.empty() ? "" : ", ") + std::string(kind);
    if (shown.size() < top) shown.insert(as_size(best - ranked.begin()));
  };
  const auto begin = ranked.begin();
  show(std::find_if(begin, last, has_no_context), "best without CP");
  show(std::find_if(begin, last, is_fsdp), "best with FSDP");
  const auto least = [&](const auto& of) {
    return std::min_element(begin, last,
                            [&](const Finalist& a, const Finalist& b) { return of(a) < of(b); });
  };
  show(least([](const Finalist& plan) { return plan.scope_energy; }), "least energy");
  show(least([](const Finalist& plan) { return plan.candidate.memory; }), "least memory");
  show(least(dimensions), "simplest");
  const auto fill = [&](const auto& test) {
    for (size_t i = 1; i < ranked.size() && shown.size() < top; ++i)
      if (test(ranked[i])) shown.insert(i);
  };
  fill([&](const Finalist& plan) {
    return std::ranges::none_of(
        shown, [&](size_t i) { return division_of(ranked[i]) == division_of(plan); });
  });
  fill([](const Finalist&) { return true; });
  std::vector<Finalist> order = mapped(shown, [&](const size_t i) { return ranked[i]; });
  for (size_t i = 0; i < ranked.size(); ++i)
    if (!shown.contains(i)) order.push_back(ranked[i]);
  ranked = std::move(order);
}

class Finals {
 public:
  Finals(const Space& space, const Objective& objective, const Limits& limits,
         const FinalOptions& options)
      : space_(space), objective_(objective), limits_(limits), options_(options) {}

  Ranking run(const std::vector<Candidate>& extra) {
    simulate_new(extra);
    SearchOptions wider = options_.search;
    while (true) {
      const Found found = search(space_, objective_, limits_, wider);
      ranking_.counts = found.counts;
      simulate_new(found.best);
      keep_limits_by_power();
      const bool enough = allowed() >= options_.top || found.best.size() < wider.keep;
      if (enough || wider.keep >= most_finalists || wider.watch.stopped()) break;
      wider.keep *= 4;
    }
    if (options_.kinds) find_kinds();
    if (objective_.goal != Goal::throughput) find_best_power();
    for (Finalist& plan : plans_)
      (plan.refused.empty() ? ranking_.ranked : ranking_.refused).push_back(std::move(plan));
    std::ranges::sort(ranking_.ranked, is_better);
    std::ranges::sort(ranking_.refused, is_better);
    mark_front(ranking_.ranked);
    if (options_.kinds) show_kinds(ranking_.ranked, options_.top);
    return std::move(ranking_);
  }

 private:
  static bool is_better(const Finalist& a, const Finalist& b) {
    return std::pair(a.value, a.candidate.index) < std::pair(b.value, b.candidate.index);
  }

  size_t allowed() const {
    return as_size(
        std::ranges::count_if(plans_, [](const Finalist& plan) { return plan.refused.empty(); }));
  }

  /// Simulates those that were not simulated before; of a search that was stopped, the best.
  void simulate_new(const std::vector<Candidate>& candidates) {
    std::vector<Candidate> fresh;
    for (const Candidate& candidate : candidates)
      if (seen_.insert(candidate.index).second) fresh.push_back(candidate);
    if (fresh.empty()) return;
    const bool was_stopped = options_.search.watch.stopped();
    if (was_stopped) fresh.resize(std::min(fresh.size(), options_.top));
    std::vector<Finalist> simulated(fresh.size());
    options_.search.watch.begin("Simulating finalists", fresh.size());
    parallel_for(fresh.size(), options_.search.threads, [&](size_t i) {
      if (options_.search.watch.stopped() && !was_stopped) return;
      spec::Job job = space_.base();
      job.plan = fresh[i].plan;
      simulated[i] = simulate(job, fresh[i], objective_);
      options_.search.watch.advance();
    });
    std::erase_if(simulated, [](const Finalist& plan) { return plan.time == 0; });  // stopped
    for (Finalist& plan : simulated) {
      plan.refused = over_limit(plan, limits_, space_.base());
      plans_.push_back(std::move(plan));
    }
  }

  /// How many steps the power limit can be lowered; 0: it is not searched.
  int64_t power_steps() const {
    const spec::Job& job = space_.base();
    const std::optional<Watts> least = job.cluster.gpu.min_power_limit;
    if (!space_.searches_power() || !least || !job.environment.device_power_limits.empty())
      return 0;
    return std::max<int64_t>(
        0, static_cast<int64_t>(std::floor((job.power_limit() - *least) / power_limit_step)));
  }

  Finalist at_lower_power(const Finalist& plan, int64_t steps) const {
    spec::Job job = space_.base();
    const Watts limit = job.power_limit() - as_real(steps) * power_limit_step;
    job.plan = plan.candidate.plan;
    job.environment.power_limit = limit;
    Finalist lowered = simulate(job, plan.candidate, objective_);
    lowered.power_limit = limit;
    lowered.refused = over_limit(lowered, limits_, space_.base());
    return lowered;
  }

  /// The best of a part of the space, where nothing found so far belongs to it.
  void find_best_in(const Fixed& fixed, const auto& belongs) {
    const auto best = best_of([](const Finalist& plan) { return plan.refused.empty(); });
    if (best.empty() || std::ranges::any_of(plans_, belongs)) return;
    SearchOptions once = options_.search;
    once.keep = 1;
    once.worst = worth_showing * best.front()->candidate.value;
    const Space part = space_.part(fixed);
    if (part.size() == 0) return;
    std::vector<Candidate> found = search(part, objective_, limits_, once).best;
    for (Candidate& each : found)
      if (const auto index = space_.find(each.layout, each.plan)) each.index = *index;
    simulate_new(found);
  }

  void find_kinds() {
    Fixed fixed = space_.fixed();
    if (fixed.context.empty()) {
      fixed.context = {1};
      find_best_in(fixed, has_no_context);
    }
    fixed = space_.fixed();
    if (fixed.sharding.empty()) {
      fixed.sharding = {spec::Sharding::parameters};
      find_best_in(fixed, is_fsdp);
    }
  }

  bool limits_heat_or_power() const {
    return limits_.temperature || limits_.device_power || limits_.node_power ||
           limits_.total_power || limits_.site_power;
  }

  /// The best plans of those that pass the test.
  std::vector<Finalist*> best_of(const auto& test) {
    std::vector<Finalist*> chosen;
    for (Finalist& plan : plans_)
      if (test(plan)) chosen.push_back(&plan);
    std::ranges::sort(chosen,
                      [](const Finalist* a, const Finalist* b) { return is_better(*a, *b); });
    chosen.resize(std::min(chosen.size(), options_.top));
    return chosen;
  }

  /// Gives the best refused plans a power limit under which they keep within the limits.
  void keep_limits_by_power() {
    const int64_t steps = power_steps();
    if (steps == 0 || !limits_heat_or_power()) return;
    lower_power(best_of([&](const Finalist& plan) {
                  return !plan.refused.empty() && lowered_.insert(plan.candidate.index).second;
                }),
                "Lowering power limits",
                [&](const Finalist& plan) { return highest_power_within_limits(plan, steps); });
  }

  Finalist highest_power_within_limits(const Finalist& plan, int64_t steps) const {
    Finalist best = at_lower_power(plan, steps);
    if (!best.refused.empty()) {
      best.refused += fmt::format(", also at {:.0f} W a GPU", *best.power_limit / unit::W);
      return best;
    }
    for (int64_t breaks = 0, keeps = steps; keeps - breaks > 1;) {
      const int64_t middle = breaks + (keeps - breaks) / 2;
      Finalist tried = at_lower_power(plan, middle);
      const bool kept = tried.refused.empty();
      (kept ? keeps : breaks) = middle;
      if (kept) best = std::move(tried);
    }
    return best;
  }

  /// Gives the best plans the power limit with the least value of the objective.
  void find_best_power() {
    const int64_t steps = power_steps();
    if (steps == 0) return;
    lower_power(best_of([](const Finalist& plan) { return plan.refused.empty(); }),
                "Searching power limits",
                [&](const Finalist& plan) { return best_at_lower_power(plan, steps); });
  }

  /// Ternary search: thirds of the range that the larger of two values rules out.
  Finalist best_at_lower_power(const Finalist& plan, int64_t steps) const {
    Finalist best = plan;
    const auto value_at = [&](int64_t lowered) {
      Finalist tried = at_lower_power(plan, lowered);
      const double value = tried.value;
      if (tried.refused.empty() && value < best.value) best = std::move(tried);
      return value;
    };
    int64_t low = 0, high = steps;
    while (high - low > 2) {
      const int64_t third = (high - low) / 3;
      if (value_at(low + third) <= value_at(high - third))
        high -= third;
      else
        low += third;
    }
    for (int64_t lowered = std::max<int64_t>(low, 1); lowered <= high; ++lowered)
      value_at(lowered);
    if (best.value >= (1 - least_saving) * plan.value) return plan;
    best.unlimited = {plan};
    return best;
  }

  template <class Lower>
  void lower_power(const std::vector<Finalist*>& plans, const char* what, const Lower& lower) {
    if (plans.empty() || options_.search.watch.stopped()) return;
    options_.search.watch.begin(what, plans.size());
    parallel_for(plans.size(), options_.search.threads, [&](size_t i) {
      *plans[i] = lower(*plans[i]);
      options_.search.watch.advance();
    });
  }

  static constexpr double least_saving = 5e-3;  // less is not worth a setting on every device

  const Space& space_;
  const Objective& objective_;
  const Limits& limits_;
  const FinalOptions& options_;
  std::set<int64_t> seen_, lowered_;  // lowered_: whose power limits were searched
  std::vector<Finalist> plans_;
  Ranking ranking_;
};

}  // namespace

Ranking rank_plans(const Space& space, const Objective& objective, const Limits& limits,
                   const FinalOptions& options, const std::vector<Candidate>& extra) {
  std::vector<Candidate> valued = extra;  // found for another goal, so far
  for (Candidate& candidate : valued)
    candidate.value = objective.value(candidate.step.time, candidate.step.energy);
  return Finals(space, objective, limits, options).run(valued);
}

}  // namespace triplepoint::search
