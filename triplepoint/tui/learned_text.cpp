// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/learned_text.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "triplepoint/base/data_table.h"

#include "triplepoint/learn/posterior.h"
#include "triplepoint/tui/result_text.h"

namespace triplepoint::tui {
namespace {

using learn::Learned;
using learn::Posterior;

/// "+12 %" of a logarithm.
std::string percent(double log_factor) {
  return fmt::format("{:+.0f} %", 100 * std::expm1(log_factor));
}

/// The run that taught most of a coefficient.
std::string teacher(const Posterior& known, std::size_t k) {
  const std::vector<double> taught = known.taught(k);
  const auto most = std::max_element(taught.begin(), taught.end(),
                                     [](double a, double b) { return std::abs(a) < std::abs(b); });
  return most == taught.end()
             ? ""
             : known.evidence()[static_cast<std::size_t>(most - taught.begin())].run;
}

/// Did a measurement say anything of it?
bool is_learned(double before, double after) {
  return after < 0.95 * before;
}

void print_coefficients(Console& console, const Posterior& known) {
  DataTable table = text_table({{"what", Align::left},
                                {"before"},
                                {"learned"},
                                {"within"},
                                {"taught most by", Align::left, 1}});
  std::vector<std::string_view> unknown;
  for (std::size_t k = 0; k < learn::coefficient_count; ++k) {
    const double before = known.priors().spread[k], after = known.spreads()[k];
    if (!is_learned(before, after)) {
      unknown.push_back(learn::coefficients()[k].what);
      continue;
    }
    table.add({std::string(learn::coefficients()[k].what), "±" + percent(before).substr(1),
               percent(known.mean()[k]), "±" + percent(after).substr(1), teacher(known, k)});
  }
  table.add({"unexplained, of the whole step",
             "±" + percent(known.priors().remainder.common).substr(1), percent(known.common()),
             "±" + percent(known.common_spread()).substr(1), ""});
  console.print("Times, against what is shipped\n");
  console.print(table_text(table, console));
  if (!unknown.empty())
    print_wrapped(console, fmt::format("Still unknown, since no run depends on it enough: {}.",
                                       fmt::join(unknown, "; ")));
}

void print_power(Console& console, const learn::LearnedPower& power) {
  if (power.runs == 0) return;
  DataTable table = text_table({{"what", Align::left}, {"learned"}, {"within"}});
  for (std::size_t k = 0; k < learn::power_meanings.size(); ++k)
    table.add({std::string(learn::power_meanings[k]), percent(power.mean[k]),
               "±" + percent(power.spread[k]).substr(1)});
  console.print(fmt::format("\nPower, against what is shipped, from {} run{}\n", power.runs,
                            power.runs == 1 ? "" : "s"));
  console.print(table_text(table, console));
}

void print_runs(Console& console, const Learned& learned) {
  DataTable table = text_table(
      {{"run", Align::left}, {"measured s"}, {"shipped"}, {"learned"}, {"from the others"}});
  const auto off = [](double predicted, double measured) {
    return percent(std::log(predicted / measured));
  };
  for (const learn::RunCheck& run : learned.runs)
    table.add({run.name, fmt::format("{:.4g}", run.measured), off(run.shipped, run.measured),
               off(run.learned, run.measured), off(run.left_out, run.measured)});
  console.print("\nPredicted against measured step time\n");
  console.print(table_text(table, console));
}

void print_warnings(Console& console, const Learned& learned, const calibrate::OwnRuns& own) {
  for (const learn::Contradiction& found : learned.contradictions)
    console.warn(
        fmt::format("{} are one job by what is known of them, and the longest took {:.2g} "
                    "times as long as the shortest; they teach no more than that, so check "
                    "what differed\n",
                    fmt::join(found.runs, ", "), found.ratio));
  for (const calibrate::SkippedRow& row : own.skipped)
    console.warn(fmt::format("{} is left out: {}\n", row.row_id, row.reason));
  for (const auto& [run, reason] : learned.left_out)
    console.warn(fmt::format("{} is left out: {}\n", run, reason));
}

void print_next(Console& console, const Learned& learned) {
  if (learned.next.empty()) return;
  console.print("\nWhat to measure next\n");
  for (const learn::NextRun& next : learned.next)
    print_wrapped(console,
                  fmt::format("{} with {} ({} GPUs, about {:.2g} s a step): narrows the forecasts "
                              "of such runs by {:.0f} %",
                              next.of, next.change, next.gpus, next.seconds,
                              100 * (1 - std::sqrt(1 - next.narrowing))));
}

}  // namespace

void print_learned(Console& console, const Learned& learned, const calibrate::OwnRuns& own,
                   const std::string& folder) {
  print_warnings(console, learned, own);
  console.print(fmt::format("Learned from {} run{}\n\n", learned.runs.size(),
                            learned.runs.size() == 1 ? "" : "s"));
  print_coefficients(console, learned.calibration.posterior());
  print_power(console, learned.calibration.power());
  print_runs(console, learned);
  print_next(console, learned);
  console.print(
      fmt::format("\nwrote {}/calibration.json; predict with it by --with {}\n", folder, folder));
}

}  // namespace triplepoint::tui
