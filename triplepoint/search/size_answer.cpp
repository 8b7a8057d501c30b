// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/size_answer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "triplepoint/base/text.h"

namespace triplepoint::search {
namespace {

constexpr Seconds day = 24 * unit::h;

Result<int64_t> parse_positive(std::string_view text) {
  const int64_t value = TPT_TRY(parse_count(text));
  if (value >= 1) return value;
  return error("{} is no number of nodes; try 8, 8..512 or 8..64/8", text);
}

std::string machines_text(const Sized& sized) {
  const spec::Cluster& cluster = sized.base.cluster;
  return fmt::format("{} x {} ({} GPUs)", cluster.num_nodes, cluster.name, cluster.num_gpus());
}

/// What a training takes, less of each is better.
std::array<double, 4> costs(const Sized& sized) {
  return {sized.bill.total / unit::s, sized.bill.money(), sized.bill.energy / unit::J,
          sized.site_watts()};
}

bool beats(const Sized& a, const Sized& b) {
  const auto of_a = costs(a), of_b = costs(b);
  return std::ranges::equal(of_a, of_b, std::less_equal()) && of_a != of_b;
}

/// By what factor the worst limit is exceeded; 1 or less: all are kept.
double excess(const Sized& sized, const SizeLimits& limits) {
  double worst = 0;
  if (limits.time) worst = std::max(worst, sized.bill.total / *limits.time);
  if (limits.money) worst = std::max(worst, sized.bill.money() / *limits.money);
  return worst;
}

std::string broken_text(const Sized& sized, const SizeLimits& limits, const std::string& currency) {
  std::string text;
  if (limits.time && sized.bill.total > *limits.time)
    text = fmt::format("{:.1f} of {:.1f} days", sized.bill.total / day, *limits.time / day);
  if (limits.money && sized.bill.money() > *limits.money)
    text += fmt::format("{}{} of {}", text.empty() ? "" : ", ",
                        metrics::money_text(sized.bill.money(), currency),
                        metrics::money_text(*limits.money, currency));
  return text;
}

std::string takes_text(const Sized& sized, const metrics::BillRates& rates) {
  std::string days = fmt::format("{:.1f} days", sized.bill.total / day);
  if (const auto likely = sized.days())
    days += fmt::format(" (likely {:.1f}-{:.1f})", likely->low, likely->high);
  return fmt::format("{} with {}; {} MW at the site, {} MWh {}, {}, {} t CO2, {} failures", days,
                     plan_text(sized.plan), significant(sized.site_watts() / 1e6),
                     significant(sized.bill.energy / unit::MWh),
                     metrics::scope_text(sized.bill.scope),
                     metrics::money_text(sized.bill.money(), rates.currency),
                     significant(sized.bill.tonnes_co2), significant(sized.bill.failures));
}

/// "; it takes longer than 30.0 days with a probability of 24 %".
std::string risk_text(const Sized& sized, const SizeLimits& limits) {
  const auto likely = sized.days();
  if (!limits.time || !likely || likely->high <= likely->low) return "";
  constexpr double interval_80 = 1.2816;  // standard deviations from the middle to an end
  const double days = sized.bill.total / day, limit = *limits.time / day;
  const double side = limit > days ? likely->high / days : days / likely->low;
  const double deviations = interval_80 * std::log(limit / days) / std::log(side);
  return fmt::format("; it takes longer than {:.1f} days with a probability of {}", limit,
                     percent(std::erfc(deviations / std::sqrt(2.0)) / 2));
}

/// Which numbers of nodes of a range were tried, where not all, and the flag that tries more.
std::string finer_text(const std::vector<Sized>& all) {
  std::set<int64_t> tried;
  for (const Sized& each : all)
    tried.insert(each.base.cluster.num_nodes);
  const int64_t low = *tried.begin(), high = *tried.rbegin(), range = high - low + 1;
  if (range == std::ssize(tried)) return "";
  const int64_t gap = (range - 1) / (std::ssize(tried) - 1);  // mean, of those that were tried
  const int64_t step = std::clamp<int64_t>(range / 8, 1, std::max<int64_t>(1, gap - 1));
  return fmt::format(" Tried were {} nodes; --nodes {}..{}/{} tries {}.", fmt::join(tried, ", "),
                     low, high, step, step == 1 ? "all between" : "more");
}

/// Where the nearest size is the last that was tried.
std::string wider_text(const std::vector<Sized>& all, const Sized& nearest, double over) {
  const auto nodes = [](const Sized& each) { return each.base.cluster.num_nodes; };
  const auto [fewest, most] = std::ranges::minmax(all, {}, nodes);
  if (nodes(fewest) == nodes(most)) return " Other numbers of nodes: --nodes A..B.";
  if (nodes(nearest) == nodes(most))
    return fmt::format(
        " It is the largest size tried; as speed and power grow with the nodes, that takes about "
        "{} nodes and {} MW at the site (--nodes, --max-power).",
        whole(std::llround(std::ceil(over * as_real(nodes(nearest))))),
        significant(over * nearest.site_watts() / 1e6));
  if (nodes(nearest) == nodes(fewest))
    return " It is the smallest size tried; lower the begin of --nodes.";
  return finer_text(all);
}

/// Of the sizes that keep all limits, where it is another than the cheapest.
std::string fastest_text(const Sized& cheapest, const Sized& fastest,
                         const metrics::BillRates& rates) {
  if (&cheapest == &fastest) return "";
  return fmt::format(" The fastest that keeps them is {}: {:.1f} days, {} ({} more).",
                     machines_text(fastest), fastest.bill.total / day,
                     metrics::money_text(fastest.bill.money(), rates.currency),
                     percent(fastest.bill.money() / cheapest.bill.money() - 1));
}

std::string size_verdict(const std::vector<Sized>& all, const SizeLimits& limits,
                         const metrics::BillRates& rates) {
  const std::string tried =
      all.size() == 1 ? "the only size tried" : fmt::format("the {} sizes tried", all.size());
  const Sized *best = nullptr, *fastest = nullptr, *nearest = nullptr;
  for (const Sized& each : all) {
    if (!each.problem.empty()) continue;
    const double over = excess(each, limits);
    if (over <= 1 && (!best || each.bill.money() < best->bill.money())) best = &each;
    if (over <= 1 && (!fastest || each.bill.total < fastest->bill.total)) fastest = &each;
    if (!nearest || over < excess(*nearest, limits)) nearest = &each;
  }
  if (best)
    return fmt::format("Take {}, {}: {}{}.{}{}", machines_text(*best),
                       all.size() == 1 ? tried + ", which keeps all limits"
                                       : "of " + tried + " the cheapest that keeps all limits",
                       takes_text(*best, rates), risk_text(*best, limits),
                       fastest_text(*best, *fastest, rates), finer_text(all));
  if (nearest)
    return fmt::format("No: {} keep{} the limits. Nearest is {} ({}): {}.{}",
                       all.size() == 1 ? tried + " does not" : "none of " + tried,
                       all.size() == 1 ? "" : "s", machines_text(*nearest),
                       broken_text(*nearest, limits, rates.currency), takes_text(*nearest, rates),
                       wider_text(all, *nearest, excess(*nearest, limits)));
  return fmt::format("No: there is no plan on {}{}.", all.size() == 1 ? "" : "any of ", tried);
}

DataTable table_of(const std::vector<Sized>& all, const SizeLimits& limits,
                   const metrics::BillRates& rates) {
  DataTable table{
      .name = "sizes",
      .title = "The best plan on each, and what all of the training takes",
      .columns = {
          {"cluster", "cluster"},
          {"nodes", "nodes"},
          {"gpus", "GPUs"},
          {"days", "days", 1, 1},
          {.key = "days_low", .title = "likely", .digits = 1, .optional = 3},
          {.key = "days_high", .title = "to", .digits = 1, .optional = 3},
          {"site_mw", "site MW", 1, 3},
          {"energy_mwh", "MWh", 1, 1},
          {"money", "k" + rates.currency, 1e3, 1},
          {.key = "co2_t", .title = "t CO2", .optional = 2},
          {.key = "failures", .title = "failures", .digits = 1, .optional = 4},
          {.key = "checkpoint_interval_s", .title = "checkpoint min", .scale = 60, .optional = 5},
          {"front", "front"},
          {.key = "plan", .title = "plan", .optional = 1, .whole = true},
          {"problem", "why not"}}};
  for (const Sized& each : all) {
    std::vector<DataCell> row = {each.base.cluster.name, each.base.cluster.num_nodes,
                                 each.base.cluster.num_gpus()};
    if (!each.problem.empty()) {
      row.insert(row.end(), 9, Missing{each.problem});
      row.insert(row.end(), {std::string(), std::string(), each.problem});
    } else {
      const auto likely = each.days();
      const auto bound = [&](double metrics::Interval::*end) {
        return cell_of(likely ? std::optional((*likely).*end) : std::nullopt,
                       "nothing is measured");
      };
      row.insert(row.end(), {each.bill.total / day, bound(&metrics::Interval::low),
                             bound(&metrics::Interval::high), each.site_watts() / 1e6,
                             each.bill.energy / unit::MWh, each.bill.money(), each.bill.tonnes_co2,
                             each.bill.failures, each.bill.checkpoint_interval / unit::s,
                             std::string(each.on_front ? "*" : ""), plan_text(each.plan),
                             broken_text(each, limits, rates.currency)});
    }
    table.add(std::move(row));
  }
  return table;
}

answers::Figure front_figure(const std::vector<Sized>& all, const metrics::BillRates& rates) {
  answers::ScatterChart chart{.title = "Days against money",
                              .x_unit = "money (M " + rates.currency + ")",
                              .y_unit = "days",
                              .colour_unit = "power of the site (MW)"};
  for (const Sized& each : all)
    if (each.problem.empty())
      chart.points.push_back({.x = each.bill.money() / 1e6,
                              .y = each.bill.total / day,
                              .colour = each.site_watts() / 1e6,
                              .job = "",
                              .hint = machines_text(each) + ": " + takes_text(each, rates),
                              .label = each.on_front ? machines_text(each) : "",
                              .on_front = each.on_front});
  return {.id = "front",
          .title = chart.title,
          .note = "Ringed: nothing takes less time, money, energy and power at once.",
          .chart = std::move(chart)};
}

}  // namespace

Result<std::vector<int64_t>> parse_nodes(std::string_view text) {
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos) return std::vector<int64_t>{TPT_TRY(parse_positive(text))};
  const size_t slash = std::min(text.find('/', dots), text.size());
  const int64_t low = TPT_TRY(parse_positive(text.substr(0, dots)));
  const int64_t high = TPT_TRY(parse_positive(text.substr(dots + 2, slash - dots - 2)));
  const int64_t step = slash < text.size() ? TPT_TRY(parse_positive(text.substr(slash + 1))) : 0;
  if (high < low) return error("{} ends before it begins; the first number is the least", text);
  std::vector<int64_t> nodes;
  for (int64_t n = low; n<high; n = step> 0 ? n + step : 2 * n)
    nodes.push_back(n);
  nodes.push_back(high);
  constexpr size_t most = 64;
  if (nodes.size() > most)
    return error("{} are {} numbers of nodes, each a search; ask for at most {}", text,
                 nodes.size(), most);
  return nodes;
}

std::vector<int64_t> between_doubled(const std::vector<int64_t>& nodes) {
  std::vector<int64_t> between;
  for (size_t i = 1; i < nodes.size(); ++i)
    if (nodes[i] == 2 * nodes[i - 1] && nodes[i - 1] % 2 == 0)
      between.push_back(nodes[i - 1] + nodes[i - 1] / 2);
  return between;
}

bool keeps(const Sized& sized, const SizeLimits& limits) {
  return sized.problem.empty() && excess(sized, limits) <= 1;
}

Result<double> parse_money(std::string_view text) {
  const auto split = split_number(text);
  if (!split || !(split->number > 0))
    return error("\"{}\" is no amount of money; try 3 MUSD or 250k", text);
  constexpr std::pair<char, double> factors[] = {{'k', 1e3}, {'M', 1e6}, {'B', 1e9}};
  for (const auto& [letter, factor] : factors)
    if (split->rest.starts_with(letter)) return split->number * factor;
  return split->number;
}

double Sized::site_watts() const {
  return base.environment.pue.value_or(1) * as_real(base.cluster.num_nodes) * plan.node_power;
}

std::optional<metrics::Interval> Sized::days() const {
  if (!step_time) return std::nullopt;
  const double days = bill.total / day;
  return metrics::Interval{days * step_time->low / plan.time, days * step_time->high / plan.time};
}

answers::Document size_answer(std::vector<Sized> all, const SizeLimits& limits,
                              const metrics::BillRates& rates, size_t asked) {
  for (Sized& each : all)
    each.on_front = each.problem.empty() && std::ranges::none_of(all, [&](const Sized& other) {
                      return other.problem.empty() && beats(other, each);
                    });
  const spec::Job& first = all.front().base;
  return {.kind = "size",
          .title = fmt::format("{}, batch {}: which machines", first.model.name,
                               first.plan.global_batch_size),
          .facts = fmt::format(
              "{} sizes, the best plan on each; energy {} at a PUE of {}; front: nothing takes "
              "less time, money, energy and power at once; a GPU hour costs {:.2f} {} on all "
              "clusters alike (--gpu-hour-price), a kWh {} (--price-kwh).",
              all.size(), metrics::scope_text(all.front().bill.scope),
              significant(first.environment.pue.value_or(1)), rates.price_per_gpu_hour,
              rates.currency, significant(rates.price_per_kwh)),
          .verdict = all.size() < asked
                         ? fmt::format("Interrupted after {} of {} sizes, which concludes nothing; "
                                       "run it again to its end, or with fewer sizes.",
                                       all.size(), asked)
                         : size_verdict(all, limits, rates),
          .sections = {{.figures = {front_figure(all, rates)}},
                       {.id = "sizes", .title = "Sizes", .tables = {table_of(all, limits, rates)}}},
          .numbers = {{"model", first.model.name},
                      {"global_batch_size", first.plan.global_batch_size},
                      {"energy_scope", metrics::energy_scopes[as_size(all.front().bill.scope)]},
                      {"currency", rates.currency}}};
}

}  // namespace triplepoint::search
