// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/claims.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "triplepoint/base/data_table.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/statistics.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/names.h"

#include "triplepoint/answers/quantities.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {
namespace {

using Number = std::optional<double>;

constexpr std::string_view over = " / ";  // between the keys of a quotient

bool is_known(std::string_view key) {
  return key.starts_with("throttle.") || key.starts_with("energy_ledger_j.") ||
         answers::find_quantity(key) != nullptr;
}

Number value_at(const StudyRow& row, std::string_view key) {
  if (!is_known(key)) return std::nullopt;
  return number_at(row, key);
}

/// The number of a claim, "a" or "a / b".
Number number_of(const StudyRow& row, std::string_view number) {
  const std::size_t at = number.find(over);
  if (at == std::string_view::npos) return value_at(row, number);
  const Number above = value_at(row, number.substr(0, at));
  const Number below = value_at(row, number.substr(at + over.size()));
  return above && below && *below != 0 ? Number(*above / *below) : std::nullopt;
}

std::string filled_in(std::string_view pattern, const std::vector<std::string>& texts) {
  std::string name;
  std::size_t used = 0;
  for (const char c : pattern)
    if (c == '*' && used < texts.size())
      name += texts[used++];
    else
      name += c;
  return name;
}

/// The numbers of all jobs of a pattern, by name.
std::map<std::string, double> numbers_of(const Study& study, const spec::Claim& claim,
                                         std::string_view pattern) {
  std::map<std::string, double> numbers;
  for (const StudyRow& row : study.rows)
    if (match_name(pattern, row.name))
      if (const Number number = number_of(row, claim.number)) numbers[row.name] = *number;
  return numbers;
}

double picked(const std::map<std::string, double>& numbers, spec::Pick pick) {
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  return pick == spec::Pick::highest ? std::ranges::max_element(numbers, less)->second
                                     : std::ranges::min_element(numbers, less)->second;
}

double compared(const spec::Claim& claim, double number, double against) {
  return claim.comparison == spec::Comparison::ratio ? number / against : number - against;
}

std::vector<double> compare_pairs(const Study& study, const spec::Claim& claim) {
  const std::map<std::string, double> numbers = numbers_of(study, claim, claim.jobs);
  const std::map<std::string, double> against = numbers_of(study, claim, claim.against);
  std::vector<double> results;
  if (claim.pick != spec::Pick::each) {
    if (numbers.empty()) return results;
    const double best = picked(numbers, claim.pick);
    if (claim.against.empty()) return {best};
    if (!against.empty()) results.push_back(compared(claim, best, picked(against, claim.pick)));
    return results;
  }
  for (const auto& [name, number] : numbers) {
    if (claim.against.empty()) {
      results.push_back(number);
      continue;
    }
    const auto other = against.find(filled_in(claim.against, *match_name(claim.jobs, name)));
    if (other != against.end()) results.push_back(compared(claim, number, other->second));
  }
  return results;
}

/// Whether a result differs from equality in the direction that the bounds mean.
bool on_claimed_side(const spec::Claim& claim, double result) {
  if (claim.against.empty()) return true;
  const double equal = claim.comparison == spec::Comparison::ratio ? 1 : 0;
  if (claim.least && *claim.least >= equal) return result > equal;
  if (claim.most && *claim.most <= equal) return result < equal;
  return false;
}

bool within_bounds(const spec::Claim& claim, double result) {
  return (!claim.least || result >= *claim.least) && (!claim.most || result <= *claim.most);
}

/// Why no pair of jobs has the number of a claim.
std::string missing_in(const Study& study, const spec::Claim& claim) {
  if (claim.jobs.empty()) return claim.remark.empty() ? "no jobs are named" : "";
  std::string_view rest = claim.number;
  for (std::size_t at = 0; at != std::string_view::npos; rest.remove_prefix(at + over.size())) {
    at = rest.find(over);
    if (!is_known(rest.substr(0, at)))
      return fmt::format("results have no number \"{}\"", rest.substr(0, at));
    if (at == std::string_view::npos) break;
  }
  for (const std::string* pattern : {&claim.jobs, &claim.against})
    if (!pattern->empty() && std::ranges::none_of(study.rows, [&](const StudyRow& row) {
          return match_name(*pattern, row.name).has_value();
        }))
      return fmt::format("no job is named {}", *pattern);
  return "no pair of these jobs has the number";
}

CheckedClaim check(const Study& study, const spec::Claim& claim) {
  CheckedClaim checked{.claim = &claim};
  std::vector<double> results = compare_pairs(study, claim);
  if (results.empty()) {
    checked.missing = missing_in(study, claim);
    return checked;
  }
  std::ranges::sort(results);
  checked.pairs = results.size();
  checked.lowest = results.front();
  checked.highest = results.back();
  checked.median = median(results);
  std::size_t on_side = 0;
  for (const double result : results) {
    checked.within += within_bounds(claim, result) ? 1 : 0;
    on_side += on_claimed_side(claim, result) ? 1 : 0;
  }
  const double wanted = claim.share * static_cast<double>(results.size()) - 1e-9;
  checked.verdict = static_cast<double>(checked.within) >= wanted ? ClaimVerdict::agrees
                    : 2 * on_side >= results.size()               ? ClaimVerdict::weaker
                                                                  : ClaimVerdict::opposite;
  return checked;
}

/// "ratio of power_w.peak, h200_*_mbs8 to h200_*".
std::string comparison_text(const spec::Claim& claim) {
  if (claim.jobs.empty()) return "";
  const std::string pick =
      claim.pick == spec::Pick::each ? "" : fmt::format("{} ", spec::enum_name(claim.pick));
  if (claim.against.empty()) return fmt::format("{}{} of {}", pick, claim.number, claim.jobs);
  return fmt::format("{} of {}{}: {} {} {}", spec::enum_name(claim.comparison), pick, claim.number,
                     claim.jobs, claim.comparison == spec::Comparison::ratio ? "to" : "minus",
                     claim.against);
}

std::string bounds_text(const spec::Claim& claim) {
  if (claim.least && claim.most)
    return fmt::format("{} to {}", significant(*claim.least), significant(*claim.most));
  if (claim.least) return fmt::format("at least {}", significant(*claim.least));
  return claim.most ? fmt::format("at most {}", significant(*claim.most)) : "";
}

std::string results_text(const CheckedClaim& checked) {
  if (checked.pairs == 0) return "";
  if (checked.pairs == 1) return significant(checked.median);
  return fmt::format("{} ({} to {})", significant(checked.median), significant(checked.lowest),
                     significant(checked.highest));
}

}  // namespace

std::string_view name_of(ClaimVerdict verdict) {
  switch (verdict) {
    case ClaimVerdict::agrees:
      return "agrees";
    case ClaimVerdict::weaker:
      return "weaker";
    case ClaimVerdict::opposite:
      return "opposite";
    case ClaimVerdict::unknown:
      return "cannot be said";
  }
  return "";
}

std::vector<CheckedClaim> check_claims(const Study& study) {
  std::vector<CheckedClaim> checked;
  for (const spec::Claim& claim : study.claims)
    checked.push_back(check(study, claim));
  return checked;
}

std::string claims_summary(const std::vector<CheckedClaim>& claims) {
  const auto count = [&](ClaimVerdict verdict) {
    return std::ranges::count(claims, verdict, &CheckedClaim::verdict);
  };
  return fmt::format("claims ({}): {} agree, {} weaker, {} opposite, {} cannot be said",
                     claims.size(), count(ClaimVerdict::agrees), count(ClaimVerdict::weaker),
                     count(ClaimVerdict::opposite), count(ClaimVerdict::unknown));
}

namespace {

/// "2 of 3 (60 % needed)".
std::string within_text(const CheckedClaim& checked) {
  if (checked.pairs == 0) return "";
  const double share = checked.claim->share;
  return fmt::format("{} of {}{}", checked.within, checked.pairs,
                     share < 1 ? fmt::format(" ({} needed)", percent(share)) : "");
}

}  // namespace

Json claims_json(const std::vector<CheckedClaim>& claims) {
  Json json = Json::array();
  for (const CheckedClaim& checked : claims) {
    const spec::Claim& claim = *checked.claim;
    Json one = {{"text", claim.text},
                {"place", claim.place},
                {"comparison", comparison_text(claim)},
                {"verdict", name_of(checked.verdict)},
                {"pairs", checked.pairs},
                {"within", checked.within},
                {"share", claim.share}};
    if (claim.least) one["least"] = *claim.least;
    if (claim.most) one["most"] = *claim.most;
    if (checked.pairs > 0) {
      one["lowest"] = checked.lowest;
      one["median"] = checked.median;
      one["highest"] = checked.highest;
    }
    if (!checked.missing.empty()) one["missing"] = checked.missing;
    if (!claim.remark.empty()) one["remark"] = claim.remark;
    json.push_back(std::move(one));
  }
  return json;
}

std::string claims_section(const Study& study) {
  const std::vector<CheckedClaim> claims = check_claims(study);
  if (claims.empty()) return "";
  DataTable table{{"claim", "place", "here", "claimed", "result: median (range)", "within",
                   "remark", "comparison"},
                  {}};
  for (const CheckedClaim& checked : claims)
    table.add({checked.claim->text, checked.claim->place, std::string(name_of(checked.verdict)),
               bounds_text(*checked.claim), results_text(checked), within_text(checked),
               checked.missing.empty() ? checked.claim->remark : checked.missing,
               comparison_text(*checked.claim)});
  return html_section(
      "claims", "Claims of the publication",
      fmt::format("<p>{}.</p>", claims_summary(claims)) +
          html_table(table, "What the publication says, and what these results say"));
}

std::optional<std::vector<std::string>> match_name(std::string_view pattern,
                                                   std::string_view name) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos)
    return pattern == name ? std::optional(std::vector<std::string>()) : std::nullopt;
  if (name.substr(0, star) != pattern.substr(0, star)) return std::nullopt;
  for (std::size_t length = 0; star + length <= name.size(); ++length)
    if (auto rest = match_name(pattern.substr(star + 1), name.substr(star + length))) {
      rest->insert(rest->begin(), std::string(name.substr(star, length)));
      return rest;
    }
  return std::nullopt;
}

}  // namespace triplepoint::report
