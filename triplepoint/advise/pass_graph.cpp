// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/pass_graph.h"

#include <algorithm>
#include <limits>

namespace triplepoint::advise {
namespace {

using workload::ActionKind;

struct Place {
  size_t stage, at;
};

/// All actions by their begin: whatever waits begins later than what it waits for.
std::vector<Place> in_order_of_begin(std::span<const sim::StageTimeline> timeline) {
  std::vector<Place> places;
  for (size_t s = 0; s < timeline.size(); ++s)
    for (size_t a = 0; a < timeline[s].actions.size(); ++a)
      places.push_back({s, a});
  std::ranges::stable_sort(places, [&](const Place& a, const Place& b) {
    const sim::ActionTimes &x = timeline[a.stage].actions[a.at],
                           &y = timeline[b.stage].actions[b.at];
    return std::pair(x.begin, x.end) < std::pair(y.begin, y.end);
  });
  return places;
}

/// Passes by virtual stage and microbatch, for either direction.
class Senders {
 public:
  Senders(size_t virtual_stages, size_t microbatches)
      : microbatches_(microbatches),
        forward_(virtual_stages * microbatches, Pass::none),
        backward_(forward_) {}

  size_t& of(const workload::Action& action, size_t virtual_stage) {
    auto& table = action.kind == ActionKind::forward ? forward_ : backward_;
    return table[virtual_stage * microbatches_ + as_size(action.microbatch)];
  }

 private:
  size_t microbatches_;
  std::vector<size_t> forward_, backward_;
};

size_t count_microbatches(std::span<const sim::StageTimeline> timeline) {
  const int32_t last = most_of(
      timeline[0].actions, [](const sim::ActionTimes& action) { return action.action.microbatch; });
  return as_size(last) + 1;
}

}  // namespace

PassGraph::PassGraph(std::span<const sim::StageTimeline> timeline, size_t chunks,
                     sim::SendMode mode, const sim::ScheduleRules& rules)
    : mode_(mode),
      rules_(rules),
      stages_(timeline.size()),
      chunks_(chunks),
      finish_(timeline.size()),
      last_(timeline.size(), Pass::none) {
  const size_t last_virtual = stages_ * chunks - 1;
  Senders senders(last_virtual + 1, count_microbatches(timeline));
  for (const Place& place : in_order_of_begin(timeline)) {
    const sim::ActionTimes& action = timeline[place.stage].actions[place.at];
    const workload::Action& what = action.action;
    Pass pass{.stage = place.stage,
              .chunk = as_size(what.chunk),
              .kind = as_size(what.kind),
              .before = last_[place.stage],
              .sent = action.queued + action.sent};
    const size_t v = pass.chunk * stages_ + place.stage;
    if (what.kind == ActionKind::forward && v > 0)
      pass.input = senders.of(what, v - 1);
    else if (what.kind != ActionKind::forward && what.kind != ActionKind::backward_weight &&
             v < last_virtual)
      pass.input = senders.of(what, v + 1);
    last_[place.stage] = passes_.size();
    if (what.kind != ActionKind::backward_weight) senders.of(what, v) = passes_.size();
    passes_.push_back(pass);
  }
  begin_.resize(passes_.size());
  end_.resize(passes_.size());
  duration_.resize(passes_.size());
}

/// When the stage may go on to its next pass.
Seconds PassGraph::leaves_stage(size_t pass) const {
  return mode_ == sim::SendMode::blocking ? end_[pass] + passes_[pass].sent : end_[pass];
}

void PassGraph::update(const PassTimes& times) {
  for (size_t i = 0; i < passes_.size(); ++i) {
    const Pass& pass = passes_[i];
    Seconds begin = pass.before == Pass::none ? rules_.start : leaves_stage(pass.before);
    if (pass.input != Pass::none)
      begin = std::max(begin, end_[pass.input] + passes_[pass.input].sent);
    duration_[i] = rules_.gap + times[pass.stage][pass.chunk][pass.kind];
    begin_[i] = begin;
    end_[i] = begin + duration_[i];
  }
  for (size_t s = 0; s < stages_; ++s)
    finish_[s] = leaves_stage(last_[s]);
}

std::vector<Seconds> PassGraph::slacks(std::span<const Seconds> deadlines) const {
  std::vector<Seconds> latest(passes_.size(), Seconds(std::numeric_limits<double>::infinity()));
  const bool blocking = mode_ == sim::SendMode::blocking;
  for (size_t s = 0; s < stages_; ++s)
    latest[last_[s]] = deadlines[s] - (blocking ? passes_[last_[s]].sent : Seconds());
  for (size_t i = passes_.size(); i-- > 0;) {
    const Seconds begin = latest[i] - duration_[i];
    if (const size_t before = passes_[i].before; before != Pass::none)
      latest[before] =
          std::min(latest[before], begin - (blocking ? passes_[before].sent : Seconds()));
    if (const size_t input = passes_[i].input; input != Pass::none)
      latest[input] = std::min(latest[input], begin - passes_[input].sent);
  }
  for (size_t i = 0; i < latest.size(); ++i)
    latest[i] -= end_[i];
  return latest;
}

std::vector<std::vector<std::array<int32_t, sim::action_kind_count>>> PassGraph::critical_counts(
    size_t stage) const {
  std::vector<std::vector<std::array<int32_t, sim::action_kind_count>>> counts(
      stages_, std::vector<std::array<int32_t, sim::action_kind_count>>(chunks_));
  for (size_t i = last_[stage]; i != Pass::none;) {
    const Pass& pass = passes_[i];
    ++counts[pass.stage][pass.chunk][pass.kind];
    const bool waited = pass.input != Pass::none &&
                        (pass.before == Pass::none || begin_[i] > leaves_stage(pass.before));
    i = waited ? pass.input : pass.before;
  }
  return counts;
}

}  // namespace triplepoint::advise
