// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/finish_time_scheduler.h"

#include <limits>

namespace triplepoint::search {

std::span<const Seconds> FinishTimeScheduler::finish_times(std::span<const sim::StageTimes> stages,
                                                           std::span<const sim::Wire> wires,
                                                           sim::SendMode mode,
                                                           const sim::ScheduleRules& rules) {
  engine_.start(stages, wires, mode, rules);
  engine_.run();
  finish_.clear();
  for (size_t s = 0; s < stages.size(); ++s)
    finish_.push_back(engine_.finish(s));
  return finish_;
}

namespace {

constexpr double not_yet = std::numeric_limits<double>::infinity();

/// A wire on a link: when its data flow, one send at a time, and what they take of the link.
struct LinkUser {
  const std::vector<double>* begins = nullptr;
  double latency = 0, alone = 0, rate = 0;
  double busy_until = 0;
  size_t next = 0;
  double next_begin() const { return next < begins->size() ? (*begins)[next] + latency : not_yet; }
};

/// Goes through the sends in the order of their begin.
bool suffices(std::vector<LinkUser>& users, double capacity) {
  while (true) {
    auto first = users.begin();
    for (auto user = users.begin(); user != users.end(); ++user)
      if (user->next_begin() < first->next_begin()) first = user;
    const double now = first->next_begin();
    if (now == not_yet) return true;
    first->busy_until = (*first->begins)[first->next++] + first->alone;
    double carried = 0;
    for (const LinkUser& user : users)
      if (user.busy_until > now) carried += user.rate;
    if (carried > capacity) return false;
  }
}

}  // namespace

bool FinishTimeScheduler::links_suffice(const sim::Wiring& wiring, size_t pipeline) const {
  std::vector<std::vector<LinkUser>> users(wiring.capacities().size());
  const auto wires = wiring.wires(pipeline);
  for (size_t w = 0; w < wires.size(); ++w) {
    if (wires[w].flow_class == sim::Wire::no_flow) continue;
    const sim::FlowClass& flow = wiring.classes()[static_cast<size_t>(wires[w].flow_class)];
    for (const sim::LinkUse& use : flow.links)
      users[static_cast<size_t>(use.link)].push_back({.begins = &engine_.record().begins[w],
                                                      .latency = wires[w].latency / unit::s,
                                                      .alone = wires[w].alone / unit::s,
                                                      .rate = use.ranks * flow.limit});
  }
  for (size_t link = 0; link < users.size(); ++link)
    if (!suffices(users[link], wiring.capacities()[link].in_base_units())) return false;
  return true;
}

}  // namespace triplepoint::search
