// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/search.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "triplepoint/base/parallel.h"

#include "triplepoint/search/layout_scan.h"

namespace triplepoint::search {
namespace {

constexpr double nothing_found = std::numeric_limits<double>::infinity();
constexpr size_t bounded_at_once = 256, simulated_at_once = 32;  // layouts

/// Whether something of this bound may be as good as `value`. A bound sums in another order than
/// what it bounds, and so lies above it by a few roundings: of equally good plans none is dropped
/// for these.
bool may_reach(double bound, double value) {
  return bound <= (1 + 1e-9) * value;
}

/// Workers that threads take and give back. Which one a task gets does not matter: they only keep
/// estimates.
template <class Worker>
class Workers {
 public:
  explicit Workers(std::function<std::unique_ptr<Worker>()> make) : make_(std::move(make)) {}

  void with(const auto& task) {
    std::unique_ptr<Worker> worker = take();
    task(*worker);
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(worker));
  }

 private:
  std::unique_ptr<Worker> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<Worker> worker = std::move(idle_.back());
        idle_.pop_back();
        return worker;
      }
    }
    return make_();
  }

  std::function<std::unique_ptr<Worker>()> make_;
  std::vector<std::unique_ptr<Worker>> idle_;
  std::mutex mutex_;
};

struct Worker {
  LayoutScan scan;
  StepEvaluator evaluator;
};

/// A layout, and the best any of its plans can be.
struct BoundedLayout {
  size_t layout = 0;
  double bound = nothing_found;
  std::pair<double, size_t> order() const { return {bound, layout}; }
};

bool is_better(const Candidate& a, const Candidate& b) {
  return std::pair(a.value, a.index) < std::pair(b.value, b.index);
}

class Search {
 public:
  Search(const Space& space, const Objective& objective, const Limits& limits,
         const SearchOptions& options)
      : space_(space),
        objective_(objective),
        options_(options),
        usable_(usable_memory(space.base(), limits)),
        workers_([this, &limits, typical = typical_of(space.base())] {
          const auto energy =
              objective_.goal == Goal::throughput ? EnergyBound::none : EnergyBound::lowest_clock;
          return std::make_unique<Worker>(Worker{LayoutScan(space_, limits, typical, energy),
                                                 StepEvaluator(space_.base(), typical)});
        }) {}

  Found run() {
    found_.counts.plans = space_.size();
    found_.counts.layouts = static_cast<int64_t>(space_.layouts().size());
    bound_layouts();
    search_layouts();
    return std::move(found_);
  }

 private:
  double value_of(const StepBound& bound) const {
    return objective_.value(bound.time, bound.energy);
  }

  /// Numbers of layouts that share estimates (LayoutScan).
  std::vector<std::vector<size_t>> groups() const {
    std::vector<std::vector<size_t>> groups;
    std::map<std::tuple<spec::RankOrder, int64_t, int64_t, int64_t, int64_t>, size_t> known;
    for (size_t i = 0; i < space_.layouts().size(); ++i) {
      const Layout& layout = space_.layouts()[i];
      const std::tuple key(layout.rank_order, layout.tensor, layout.context, layout.expert,
                           layout.expert_tensor);
      const auto [at, is_new] = known.try_emplace(key, groups.size());
      if (is_new) groups.emplace_back();
      groups[at->second].push_back(i);
    }
    return groups;
  }

  /// Bounds all layouts, each as a whole.
  void bound_layouts() {
    std::vector<BoundedLayout> bounds(space_.layouts().size());
    const auto groups = this->groups();
    std::vector<SearchCounts> counts(groups.size());
    options_.watch.begin("Bounding", groups.size());
    parallel_for(groups.size(), options_.threads, [&](size_t g) {
      if (options_.watch.stopped()) return;
      workers_.with([&](Worker& worker) {
        for (const size_t i : groups[g]) {
          const auto bound = worker.scan.bound(i, CountedParts::many_layers);
          bounds[i] = {i, bound ? value_of(*bound) : nothing_found};
          if (!bound) counts[g].out_of_memory += space_.first_of(i + 1) - space_.first_of(i);
        }
      });
      options_.watch.advance();
    });
    for (const SearchCounts& each : counts)
      found_.counts += each;
    std::erase_if(bounds, [](const BoundedLayout& each) { return each.bound == nothing_found; });
    std::ranges::sort(bounds, {}, &BoundedLayout::order);
    roughly_ = std::move(bounds);
  }

  double threshold() const {
    const bool full = found_.best.size() >= options_.keep;
    return std::min(options_.worst, full ? found_.best.back().value : nothing_found);
  }

  /// Takes layouts in the order of what is known of them. A layout whose bound as a whole does not
  /// rule it out is bounded plan by plan, and simulated when that does not either.
  void search_layouts() {
    options_.watch.begin("Searching", roughly_.size());
    size_t bounded = 0;
    while (!options_.watch.stopped()) {
      const double limit = threshold();
      const auto next = [&](const auto& layouts, size_t at) {
        return at < layouts.size() ? layouts[at].bound : nothing_found;
      };
      const double rough = next(roughly_, bounded), exact = next(exactly_, 0);
      if (may_reach(rough, limit) && rough <= exact && bounded < roughly_.size())
        bounded += bound_plans(bounded, limit);
      else if (may_reach(exact, limit) && !exactly_.empty())
        simulate_layouts(limit);
      else
        return;
    }
  }

  /// How many layouts of a list, from `first` on, are taken at once.
  static size_t batch(const std::vector<BoundedLayout>& layouts, size_t first, double limit,
                      size_t most) {
    size_t last = first;
    while (last < layouts.size() && last - first < most && may_reach(layouts[last].bound, limit))
      ++last;
    return last - first;
  }

  /// What the layout's bound of many layers left out may rule it out.
  bool layout_may_win(Worker& worker, size_t layout, double limit) const {
    if (limit == nothing_found) return true;
    const std::optional<StepBound> bound = worker.scan.bound(layout, CountedParts::all);
    return bound && may_reach(value_of(*bound), limit);
  }

  /// Bounds the plans of the next layouts; returns of how many.
  size_t bound_plans(size_t first, double limit) {
    const size_t number = batch(roughly_, first, limit, bounded_at_once);
    std::vector<BoundedLayout> bounds(number);
    for (size_t i = 0; i < number; ++i)
      bounds[i].layout = roughly_[first + i].layout;
    // Neighbours share estimates.
    std::ranges::sort(bounds, {}, &BoundedLayout::layout);
    std::vector<SearchCounts> counts(number);
    const auto may_win = [&](const StepBound& bound) { return may_reach(value_of(bound), limit); };
    parallel_for(number, options_.threads, [&](size_t i) {
      if (options_.watch.stopped()) return;
      workers_.with([&](Worker& worker) {
        if (!layout_may_win(worker, bounds[i].layout, limit)) return;
        counts[i].out_of_memory += worker.scan.visit(
            bounds[i].layout, may_win, [&](const VariantAt&, int64_t, const StepBound& bound) {
              bounds[i].bound = std::min(bounds[i].bound, value_of(bound));
            });
      });
      options_.watch.advance();
    });
    for (const SearchCounts& each : counts)
      found_.counts += each;
    std::erase_if(bounds, [&](const BoundedLayout& each) {
      return each.bound == nothing_found || !may_reach(each.bound, limit);
    });
    exactly_.insert(exactly_.end(), bounds.begin(), bounds.end());
    std::ranges::sort(exactly_, {}, &BoundedLayout::order);
    return number;
  }

  void simulate_layouts(double limit) {
    const size_t number = batch(exactly_, 0, limit, simulated_at_once);
    std::vector<std::optional<Candidate>> best(number);
    std::vector<SearchCounts> counts(number);
    parallel_for(number, options_.threads, [&](size_t i) {
      if (options_.watch.stopped()) return;
      workers_.with([&](Worker& worker) {
        best[i] = simulate_layout(worker, exactly_[i].layout, limit, counts[i]);
      });
    });
    for (size_t i = 0; i < number; ++i) {
      found_.counts += counts[i];
      if (best[i]) keep(std::move(*best[i]));
    }
    exactly_.erase(exactly_.begin(), exactly_.begin() + static_cast<std::ptrdiff_t>(number));
  }

  void keep(Candidate candidate) {
    if (candidate.value > options_.worst) return;
    auto& best = found_.best;
    const auto sizes = [](Layout layout) {
      layout.chunks = 1;
      return layout;
    };
    const auto same = std::ranges::find_if(
        best, [&](const Candidate& each) { return sizes(each.layout) == sizes(candidate.layout); });
    if (same != best.end()) {
      if (!is_better(candidate, *same)) return;
      best.erase(same);
    }
    best.insert(std::upper_bound(best.begin(), best.end(), candidate, is_better),
                std::move(candidate));
    if (best.size() > options_.keep) best.pop_back();
  }

  std::optional<Candidate> simulate_layout(Worker& worker, size_t layout, double limit,
                                           SearchCounts& counts) const {
    struct Bounded {
      double value;
      int64_t index;
      VariantAt at;
    };
    std::vector<Bounded> plans;
    std::optional<Candidate> best;
    const auto may_win = [&](const StepBound& bound) {
      return may_reach(value_of(bound), best ? std::min(best->value, limit) : limit);
    };
    worker.scan.visit(layout, may_win,
                      [&](const VariantAt& at, int64_t index, const StepBound& bound) {
                        if (may_win(bound)) plans.push_back({value_of(bound), index, at});
                      });
    std::ranges::sort(plans, [](const Bounded& a, const Bounded& b) {
      return std::pair(a.value, a.index) < std::pair(b.value, b.index);
    });
    const Layout& sizes = space_.layouts()[layout];
    const Variants variants = space_.variants(sizes);
    ++counts.layouts_simulated;
    for (const Bounded& bounded : plans) {
      if ((best && !may_reach(bounded.value, best->value)) || options_.watch.stopped()) break;
      Candidate candidate{.index = bounded.index,
                          .layout = sizes,
                          .plan = space_.plan(sizes, variants, bounded.at),
                          .bound = bounded.value};
      if (!simulate_plan(worker, candidate, may_win, counts)) continue;
      if (!best || is_better(candidate, *best)) best = std::move(candidate);
    }
    return best;
  }

  /// Nothing comes of plans that are too large, or cannot win.
  bool simulate_plan(Worker& worker, Candidate& candidate, const MayWin& may_win,
                     SearchCounts& counts) const {
    const workload::MemoryVerdict memory = worker.evaluator.memory(candidate.plan);
    candidate.memory = memory.stages[as_size(memory.worst_stage)].total();
    if (candidate.memory > usable_) {
      ++counts.exact_out_of_memory;
      return false;
    }
    const int64_t linked = worker.evaluator.linked();
    const std::optional<StepEstimate> step = worker.evaluator.evaluate(candidate.plan, may_win);
    ++counts.simulated;
    counts.simulated_on_links += worker.evaluator.linked() - linked;
    if (!step) return false;
    candidate.step = *step;
    candidate.value = objective_.value(step->time, step->energy);
    return true;
  }

  const Space& space_;
  const Objective& objective_;
  const SearchOptions& options_;
  Bytes usable_;
  Workers<Worker> workers_;
  std::vector<BoundedLayout> roughly_, exactly_;  // as a whole; plan by plan. Lowest bound first
  Found found_;
};

}  // namespace

SearchCounts& SearchCounts::operator+=(const SearchCounts& other) {
  out_of_memory += other.out_of_memory;
  layouts_simulated += other.layouts_simulated;
  simulated += other.simulated;
  simulated_on_links += other.simulated_on_links;
  exact_out_of_memory += other.exact_out_of_memory;
  return *this;
}

Found search(const Space& space, const Objective& objective, const Limits& limits,
             const SearchOptions& options) {
  return Search(space, objective, limits, options).run();
}

Candidate evaluate_plan(const spec::Job& job, const Objective& objective) {
  StepEvaluator evaluator(job, typical_of(job));
  Candidate candidate;
  candidate.plan = job.plan;
  candidate.layout = layout_of(job);
  const workload::MemoryVerdict memory = evaluator.memory(job.plan);
  candidate.memory = memory.stages[as_size(memory.worst_stage)].total();
  candidate.step = evaluator.evaluate(job.plan);
  candidate.value = objective.value(candidate.step.time, candidate.step.energy);
  return candidate;
}

}  // namespace triplepoint::search
