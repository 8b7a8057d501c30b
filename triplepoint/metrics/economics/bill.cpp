// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/economics/bill.h"

#include <cmath>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"
#include "triplepoint/base/unit_text.h"

#include "triplepoint/spec/toml_tree.h"

namespace triplepoint::metrics {
namespace {

using spec::TomlValue;

/// One file, read key by key; the first problem is kept.
class RateReader {
 public:
  RateReader(const TomlValue& table, std::string file) : table_(table), file_(std::move(file)) {}

  void number(const char* key, double& value) {
    const TomlValue* found = find(key);
    if (found == nullptr) return;
    if (found->is(TomlValue::Kind::integer))
      value = as_real(found->integer);
    else if (found->is(TomlValue::Kind::number))
      value = found->number;
    else
      fail(key, "is no number");
  }
  void time(const char* key, Seconds& value) {
    const TomlValue* found = find(key);
    if (found == nullptr) return;
    const Result<Seconds> read = parse_quantity<Seconds>(found->text);
    if (read)
      value = *read;
    else
      fail(key, read.error().what);
  }
  void text(const char* key, std::string& value) {
    if (const TomlValue* found = find(key)) value = found->text;
  }
  const std::string& problem() const { return problem_; }

 private:
  const TomlValue* find(const char* key) {
    const TomlValue* found = table_.find(key);
    if (found == nullptr) fail(key, "is missing");
    return found;
  }
  void fail(const char* key, const std::string& what) {
    if (problem_.empty())
      problem_ = fmt::format("{}: bill.{} {} (no run can be priced without it); write it", file_,
                             key, what);
  }

  const TomlValue& table_;
  std::string file_, problem_;
};

/// Wall time per productive second.
double slowdown_of_job(const BillRates& rates, Seconds job_mtbf, Seconds interval) {
  const double mean = job_mtbf / unit::s, tau = interval / unit::s;
  const double cycle = (tau + rates.checkpoint_write / unit::s) / mean;
  return mean * std::exp(rates.restart / job_mtbf) * std::expm1(cycle) / tau;
}

Screening screening_of(const SlowGpus& slow, double devices, Seconds restart) {
  Screening screening{.job_interval = slow.every / devices};
  const double lost = 1 - 1 / slow.factor, mean = screening.job_interval / unit::s;
  const double best = std::sqrt(2 * (slow.screen / unit::s) * mean / lost);
  screening.interval = slow.interval.value_or(best * unit::s);
  const double time = screening.interval / unit::s, found = -std::expm1(-time / mean);
  const double cycle = time + slow.screen / unit::s + found * (restart / unit::s);
  screening.loss = 1 - (time - lost * (time - mean * found)) / cycle;
  screening.chance_at_start = -std::expm1(devices * std::log1p(-slow.at_start));
  screening.found = found / cycle;  // a second
  return screening;
}

/// "3,200 t", and below one tonne "478 kg".
std::string mass_text(double tonnes) {
  return tonnes < 1 ? significant(tonnes * 1000) + " kg" : significant(tonnes) + " t";
}

}  // namespace

Result<BillRates> load_bill_rates(const spec::Library& library) {
  const std::string path = library.root + "/economics.toml";
  const std::string text = TPT_TRY(read_file(path));
  const TomlValue root = TPT_TRY(spec::parse_toml(text, path));
  const TomlValue* table = root.find("bill");
  if (table == nullptr)
    return error("{}: no [bill] (it holds what electricity and machines cost); restore the file",
                 path);
  BillRates rates;
  RateReader read(*table, path);
  read.number("price_per_kwh", rates.price_per_kwh);
  read.number("price_per_gpu_hour", rates.price_per_gpu_hour);
  read.text("currency", rates.currency);
  read.number("pue", rates.pue);
  read.number("grams_co2_per_kwh", rates.grams_co2_per_kwh);
  read.time("device_mtbf", rates.device_mtbf);
  read.time("checkpoint_write", rates.checkpoint_write);
  read.time("restart", rates.restart);
  if (!read.problem().empty()) return error(read.problem());
  return rates;
}

Seconds best_checkpoint_interval(Seconds write, Seconds job_mtbf) {
  const double d = write / unit::s, mean = job_mtbf / unit::s;
  if (d >= 2 * mean) return job_mtbf;
  const double share = d / (2 * mean);
  return (std::sqrt(2 * d * mean) * (1 + std::sqrt(share) / 3 + share / 9) - d) * unit::s;
}

Bill bill_of(const BillInput& input, const BillRates& rates) {
  Bill bill;
  bill.steps = std::ceil(input.tokens / input.tokens_per_step);
  bill.productive = bill.total = bill.steps * input.step_time;
  if (rates.slow.every > Seconds()) {
    bill.screening = screening_of(rates.slow, input.devices, rates.restart);
    bill.total = bill.total / (1 - bill.screening->loss);
  }
  if (rates.device_mtbf > Seconds() && rates.checkpoint_write > Seconds()) {
    bill.job_mtbf = rates.device_mtbf / input.devices;
    bill.checkpoint_interval =
        rates.checkpoint_interval > Seconds()
            ? rates.checkpoint_interval
            : best_checkpoint_interval(rates.checkpoint_write, bill.job_mtbf);
    bill.total = slowdown_of_job(rates, bill.job_mtbf, bill.checkpoint_interval) * bill.total;
    bill.failures = bill.total / bill.job_mtbf;
  }
  if (bill.screening) {
    double& found = bill.screening->found;
    found = input.devices * rates.slow.at_start + found * (bill.total / unit::s);
    bill.screening->spares = std::llround(std::ceil(found + 1.645 * std::sqrt(found)));
  }
  bill.goodput = bill.productive / bill.total;
  bill.scope = input.scope;
  const double pue = input.scope == EnergyScope::site ? rates.pue : 1;
  bill.energy = pue * (bill.total * input.power);
  const double kwh = bill.energy / unit::kWh;
  bill.electricity = kwh * rates.price_per_kwh;
  bill.machines = bill.total / unit::h * input.devices * rates.price_per_gpu_hour;
  bill.tonnes_co2 = kwh * rates.grams_co2_per_kwh / 1e6;
  return bill;
}

std::string money_text(double money, const std::string& currency) {
  if (money >= 1e6) return fmt::format("{:.2f} M {}", money / 1e6, currency);
  return fmt::format("{} {}", whole(std::llround(money)), currency);
}

std::string duration_text(Seconds time) {
  if (time >= 48 * unit::h) return fmt::format("{:.1f} days", time / (24 * unit::h));
  if (time >= 2 * unit::h) return fmt::format("{:.1f} h", time / unit::h);
  return fmt::format("{:.0f} min", time / unit::min);
}

std::string bill_text(const Bill& bill, const BillRates& rates) {
  constexpr double min_goodput = 1e-6;
  if (bill.goodput < min_goodput)
    return fmt::format(
        "it would never end: a failure comes every {}, and hardly a checkpoint (every {}) is "
        "reached between two",
        to_text(bill.job_mtbf), to_text(bill.checkpoint_interval));
  std::string text = fmt::format(
      "{}, {} MWh {}{}, {} (machines {}, electricity {}), {} CO2", duration_text(bill.total),
      significant(bill.energy / unit::MWh), scope_text(bill.scope),
      bill.scope == EnergyScope::site ? fmt::format(" (PUE {})", significant(rates.pue)) : "",
      money_text(bill.money(), rates.currency), money_text(bill.machines, rates.currency),
      money_text(bill.electricity, rates.currency), mass_text(bill.tonnes_co2));
  if (bill.failures > 0)
    text += fmt::format("; goodput {:.1f} %: a failure every {}, {} in all, a checkpoint every {}",
                        100 * bill.goodput, duration_text(bill.job_mtbf),
                        significant(bill.failures), duration_text(bill.checkpoint_interval));
  if (!bill.screening) return text;
  const Screening& slow = *bill.screening;
  text += fmt::format(
      "; slow GPUs take {} of the time: one every {}, found by a test of {} every {}, {} in all, "
      "for which {} spares are enough in 95 % of jobs",
      percent(slow.loss), duration_text(slow.job_interval), to_text(rates.slow.screen),
      duration_text(slow.interval), significant(slow.found), whole(slow.spares));
  if (rates.slow.at_start > 0)
    text +=
        fmt::format("; without a test before the start the job would meet one with a chance of {}",
                    percent(slow.chance_at_start));
  return text;
}

Json bill_json(const Bill& bill, const BillRates& rates) {
  Json json = {{"steps", std::llround(bill.steps)},
               {"productive_s", bill.productive / unit::s},
               {"total_s", bill.total / unit::s},
               {"goodput", bill.goodput},
               {"failures", bill.failures},
               {"job_mtbf_s", bill.job_mtbf / unit::s},
               {"checkpoint_interval_s", bill.checkpoint_interval / unit::s},
               {"energy_mwh", bill.energy / unit::MWh},
               {"energy_scope", energy_scopes[as_size(bill.scope)]},
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
  if (const auto& slow = bill.screening)
    json["slow_gpus"] = {{"loss", slow->loss},
                         {"job_interval_s", slow->job_interval / unit::s},
                         {"screening_interval_s", slow->interval / unit::s},
                         {"found", slow->found},
                         {"spares", slow->spares},
                         {"chance_at_start", slow->chance_at_start}};
  return json;
}

}  // namespace triplepoint::metrics
