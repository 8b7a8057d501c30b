// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/economics/bill_text.h"

#include <fmt/format.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/number_text.h"
#include "triplepoint/base/unit_text.h"

namespace triplepoint::metrics {
namespace {

std::string money_text(double money, const std::string& currency) {
  if (money >= 1e6) return fmt::format("{:.2f} M {}", money / 1e6, currency);
  return fmt::format("{:.0f} {}", money, currency);
}

std::string duration_text(Seconds time) {
  if (time >= 48 * unit::h) return fmt::format("{:.1f} days", time / (24 * unit::h));
  if (time >= 2 * unit::h) return fmt::format("{:.1f} h", time / unit::h);
  return fmt::format("{:.0f} min", time / unit::min);
}

}  // namespace

std::string bill_text(const Bill& bill, const BillRates& rates) {
  constexpr double min_goodput = 1e-6;
  if (bill.goodput < min_goodput)
    return fmt::format(
        "it would never end: a failure comes every {}, and hardly a checkpoint (every {}) is "
        "reached between two",
        to_text(bill.job_mtbf), to_text(bill.checkpoint_interval));
  std::string text = fmt::format("{}, {} MWh, {} (machines {}, electricity {}), {:.0f} t CO2",
                                 duration_text(bill.total), significant(bill.energy / unit::MWh),
                                 money_text(bill.money(), rates.currency),
                                 money_text(bill.machines, rates.currency),
                                 money_text(bill.electricity, rates.currency), bill.tonnes_co2);
  if (bill.failures > 0)
    text += fmt::format("; goodput {:.1f} %: a failure every {}, {} in all, a checkpoint every {}",
                        100 * bill.goodput, duration_text(bill.job_mtbf),
                        significant(bill.failures), duration_text(bill.checkpoint_interval));
  return text;
}

Json bill_json(const Bill& bill, const BillRates& rates) {
  return {{"steps", bill.steps},
          {"productive_s", bill.productive / unit::s},
          {"total_s", bill.total / unit::s},
          {"goodput", bill.goodput},
          {"failures", bill.failures},
          {"job_mtbf_s", bill.job_mtbf / unit::s},
          {"checkpoint_interval_s", bill.checkpoint_interval / unit::s},
          {"energy_mwh", bill.energy / unit::MWh},
          {"money", bill.money()},
          {"machines_money", bill.machines},
          {"electricity_money", bill.electricity},
          {"currency", rates.currency},
          {"co2_t", bill.tonnes_co2},
          {"rates",
           {{"price_per_kwh", rates.price_per_kwh},
            {"price_per_gpu_hour", rates.price_per_gpu_hour},
            {"pue", rates.pue},
            {"grams_co2_per_kwh", rates.grams_co2_per_kwh},
            {"device_mtbf_s", rates.device_mtbf / unit::s},
            {"checkpoint_write_s", rates.checkpoint_write / unit::s},
            {"restart_s", rates.restart / unit::s}}}};
}

}  // namespace triplepoint::metrics
