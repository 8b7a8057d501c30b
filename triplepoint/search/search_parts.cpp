// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/search_parts.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/installation.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"
#include "triplepoint/base/unit_text.h"

#include "triplepoint/spec/load.h"

namespace triplepoint::search {
namespace {

constexpr int part_schema = 1;

Json found_json(const search::Found& found) {
  const search::SearchCounts& counts = found.counts;
  Json json = {{"counts",
                {counts.plans, counts.layouts, counts.out_of_memory, counts.bounded,
                 counts.layouts_simulated, counts.simulated, counts.simulated_on_links,
                 counts.exact_out_of_memory}},
               {"best", Json::array()}};
  for (const search::Candidate& plan : found.best)
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

search::Found found_of(const search::Space& space, const Json& json) {
  search::Found found;
  search::SearchCounts& counts = found.counts;
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
    search::Candidate plan = search::candidate_at(space, one.at("index").get<int64_t>());
    plan.bound = one.at("bound").get<double>();
    plan.value = one.at("value").get<double>();
    plan.memory = one.at("memory_b").get<double>() * unit::B;
    plan.step.time = one.at("time_s").get<double>();
    plan.step.energy = one.at("energy_j").get<double>();
    plan.step.peak_power = one.at("peak_power_w").get<double>();
    for (size_t t = 0; t < search::term_count; ++t)
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

bool names_plans_of(const search::Space& space, const Json& json) {
  return std::all_of(json.at("best").begin(), json.at("best").end(), [&](const Json& one) {
    const auto index = one.at("index").get<int64_t>();
    return index >= 0 && index < space.size();
  });
}

}  // namespace

Result<Shard> parse_shard(std::string_view text) {
  const auto wrong = [&] {
    return error(
        fmt::format("--shard {} is no part of a whole (parts count from 0, as the tasks of "
                    "a Slurm array); try --shard 0/16",
                    text));
  };
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return wrong();
  const Result<int64_t> index = parse_count(text.substr(0, slash));
  const Result<int64_t> count = parse_count(text.substr(slash + 1));
  if (!index || !count || *index < 0 || *index >= *count) return wrong();
  return Shard{static_cast<size_t>(*index), static_cast<size_t>(*count)};
}

std::string digest_of_question(const search::Space& space, const search::Objective& objective,
                               const search::Limits& limits, const std::string& choices) {
  std::string text = program_version() + choices;
  const spec::Library library = spec::default_library();
  text += spec::write_job(space.base(), library);
  text += fmt::format("{} {} {} {} {}", static_cast<int>(objective.goal), objective.rate,
                      objective.price, space.size(), limits.headroom / unit::B);
  const auto add = [&](const auto& limit, const auto& number) {
    text += limit ? fmt::format(" {}", number(*limit)) : " -";
  };
  add(limits.temperature, [](Celsius value) { return value.degrees(); });
  for (const auto& power : {limits.device_power, limits.node_power, limits.total_power})
    add(power, [](Watts value) { return value / unit::W; });
  return digest(text);
}

std::string part_name(const Shard& shard) {
  return fmt::format("part-{}-of-{}.json", shard.index, shard.count);
}

std::string write_part(const SearchPart& part) {
  const Json json = {{"triplepoint_plan_part", part_schema}, {"shard", part.shard.index},
                     {"shards", part.shard.count},           {"question", part.question},
                     {"found", found_json(part.found)},      {"thrifty", found_json(part.thrifty)}};
  return json_text(json) + "\n";
}

Result<SearchPart> parse_part(const search::Space& space, std::string_view text,
                              const std::string& name) {
  const auto broken = [&](const char* why) {
    return error(
        fmt::format("{}: {} (it is no whole part of a search); run its shard again", name, why));
  };
  try {
    const Json json = Json::parse(text);
    if (json.at("triplepoint_plan_part") != Json(part_schema)) return broken("is of another kind");
    const bool whole =
        json.at("shard").is_number_integer() && json.at("shards").is_number_integer() &&
        counts_in_whole_numbers(json.at("found")) && counts_in_whole_numbers(json.at("thrifty"));
    if (!whole) return broken("does not count in whole numbers");
    SearchPart part;
    part.shard = {json.at("shard").get<size_t>(), json.at("shards").get<size_t>()};
    part.question = json.at("question").get<std::string>();
    if (!names_plans_of(space, json.at("found")) || !names_plans_of(space, json.at("thrifty")))
      return broken("names plans that this space does not have");
    part.found = found_of(space, json.at("found"));
    part.thrifty = found_of(space, json.at("thrifty"));
    return part;
  } catch (const Json::exception& wrong) {
    return broken(wrong.what());
  }
}

Result<std::vector<SearchPart>> read_parts(const search::Space& space, const Path& folder,
                                           const std::string& question) {
  std::vector<SearchPart> parts;
  for (const Path& file : TPT_TRY(list_files(folder, ".json"))) {
    if (!file.filename().string().starts_with("part-")) continue;
    const std::string text = TPT_TRY(read_file(file));
    parts.push_back(TPT_TRY(parse_part(space, text, file.string())));
    if (parts.back().question != question)
      return error(
          fmt::format("{}: is of another search (its flags, data or program were not the "
                      "same); give --merge the flags that the shards had",
                      file.string()));
  }
  if (parts.empty())
    return error(
        fmt::format("{} holds no part-*.json (there is nothing to merge); run the shards "
                    "with -o {}",
                    folder.string(), folder.string()));
  std::sort(parts.begin(), parts.end(),
            [](const SearchPart& a, const SearchPart& b) { return a.shard.index < b.shard.index; });
  for (size_t i = 0; i < std::max(parts.size(), parts[0].shard.count); ++i)
    if (i >= parts.size() || parts[i].shard.index != i ||
        parts[i].shard.count != parts[0].shard.count || i >= parts[0].shard.count)
      return error(
          fmt::format("{} does not hold each of {} parts once (shard {} is missing or there "
                      "twice); run it again, or empty the folder first",
                      folder.string(), parts[0].shard.count, i));
  return parts;
}

}  // namespace triplepoint::search
