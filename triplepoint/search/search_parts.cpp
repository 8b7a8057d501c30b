// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/search_parts.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/json.h"

namespace triplepoint::search {
namespace {

Json found_json(const Found& found) {
  const SearchCounts& counts = found.counts;
  Json json = {{"counts",
                {counts.plans, counts.layouts, counts.out_of_memory, counts.bounded,
                 counts.layouts_simulated, counts.simulated, counts.simulated_on_links,
                 counts.exact_out_of_memory}},
               {"best", Json::array()}};
  for (const Candidate& plan : found.best)
    json["best"].push_back({{"index", plan.index},
                            {"bound", plan.bound},
                            {"value", plan.value},
                            {"memory_b", plan.memory / unit::B},
                            {"time_s", plan.step.time},
                            {"energy_j", plan.step.energy},
                            {"peak_power_w", plan.step.peak_power},
                            {"terms_s", plan.step.terms}});
  return json;
}

Found found_of(const Space& space, const Json& json) {
  Found found;
  SearchCounts& counts = found.counts;
  int64_t* const in_order[] = {&counts.plans,
                               &counts.layouts,
                               &counts.out_of_memory,
                               &counts.bounded,
                               &counts.layouts_simulated,
                               &counts.simulated,
                               &counts.simulated_on_links,
                               &counts.exact_out_of_memory};
  for (size_t i = 0; i < std::size(in_order); ++i)
    *in_order[i] = json.at("counts").at(i).get<int64_t>();
  for (const Json& one : json.at("best")) {
    Candidate plan = candidate_at(space, one.at("index").get<int64_t>());
    plan.bound = one.at("bound").get<double>();
    plan.value = one.at("value").get<double>();
    plan.memory = one.at("memory_b").get<double>() * unit::B;
    plan.step.time = one.at("time_s").get<double>();
    plan.step.energy = one.at("energy_j").get<double>();
    plan.step.peak_power = one.at("peak_power_w").get<double>();
    for (size_t t = 0; t < term_count; ++t)
      plan.step.terms[t] = one.at("terms_s").at(t).get<double>();
    found.best.push_back(std::move(plan));
  }
  return found;
}

/// Whether what counts is whole; 1e30 would be made one without a word.
bool counts_in_whole_numbers(const Json& found) {
  const auto whole = [](const Json& number) { return number.is_number_integer(); };
  return std::all_of(found.at("counts").begin(), found.at("counts").end(), whole) &&
         std::all_of(found.at("best").begin(), found.at("best").end(),
                     [&](const Json& one) { return whole(one.at("index")); });
}

bool names_plans_of(const Space& space, const Json& json) {
  return std::all_of(json.at("best").begin(), json.at("best").end(), [&](const Json& one) {
    const auto index = one.at("index").get<int64_t>();
    return index >= 0 && index < space.size();
  });
}

}  // namespace

std::string write_part(const Found& found) {
  return json_text(found_json(found)) + "\n";
}

Result<Found> parse_part(const Space& space, std::string_view text) {
  const auto broken = [&](const char* why) {
    return error(fmt::format("a part of a search {} (it is not whole); search it again", why));
  };
  try {
    const Json json = Json::parse(text);
    if (!counts_in_whole_numbers(json)) return broken("does not count in whole numbers");
    if (!names_plans_of(space, json)) return broken("names plans that this space does not have");
    return found_of(space, json);
  } catch (const Json::exception& wrong) {
    return broken(wrong.what());
  }
}

}  // namespace triplepoint::search
