// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/economics/bill.h"

#include <cmath>

#include <doctest/doctest.h>

namespace triplepoint::metrics {
namespace {

using doctest::Approx;

BillInput a_run() {
  return {.tokens = 1e12,
          .tokens_per_step = 1e6,
          .step_time = 2 * unit::s,
          .devices = 1000,
          .power = 1 * unit::MW};
}

TEST_CASE("without failures a run takes its steps, and its energy costs what the meter says") {
  const Bill bill = bill_of(
      a_run(),
      {.price_per_kwh = 0.1, .price_per_gpu_hour = 2, .pue = 1.5, .grams_co2_per_kwh = 400});
  const double hours = 2e6 / 3600;
  CHECK(bill.steps == Approx(1e6));
  CHECK(bill.goodput == 1);
  CHECK(bill.energy / unit::MWh == Approx(1.5 * hours));
  CHECK(bill.electricity == Approx(1500 * hours * 0.1));
  CHECK(bill.machines == Approx(1000 * hours * 2));
  CHECK(bill.tonnes_co2 == Approx(1.5 * hours * 0.4));
}

TEST_CASE("a training takes whole steps: the last one is not cut where the tokens end") {
  BillInput run = a_run();
  run.tokens = 2.1e6;
  const Bill bill = bill_of(run, {});
  CHECK(bill.steps == 3);
  CHECK(bill.productive == 6 * unit::s);
}

TEST_CASE("the mass of CO2 is told in kg below one tonne") {
  const BillRates rates{.price_per_kwh = 0.1, .pue = 1, .grams_co2_per_kwh = 400};
  BillInput run = a_run();
  CHECK(bill_text(bill_of(run, rates), rates).find(", 222 t CO2") != std::string::npos);
  run.tokens = 1e9;
  CHECK(bill_text(bill_of(run, rates), rates).find(", 222 kg CO2") != std::string::npos);
}

TEST_CASE("no checkpoint interval costs less time than Daly's") {
  BillRates rates{
      .device_mtbf = 50000 * unit::h, .checkpoint_write = 60 * unit::s, .restart = 600 * unit::s};
  for (const double devices : {100., 10000., 100000.}) {
    BillInput run = a_run();
    run.devices = devices;
    rates.checkpoint_interval = {};
    const Bill best = bill_of(run, rates);
    CHECK(best.goodput < 1);
    for (const double factor : {0.5, 0.9, 1.1, 2.}) {
      rates.checkpoint_interval = factor * best.checkpoint_interval;
      CHECK(bill_of(run, rates).total >= 0.9999 * best.total);
    }
  }
}

TEST_CASE("a short checkpoint and rare failures give Young's interval and loss") {
  const Seconds write = 1 * unit::s, mean = 1e6 * unit::s;
  const double young = std::sqrt(2e6);
  CHECK(best_checkpoint_interval(write, mean) / unit::s == Approx(young).epsilon(1e-2));
  BillInput run = a_run();
  const Bill bill =
      bill_of(run, {.device_mtbf = run.devices * mean, .checkpoint_write = write, .restart = {}});
  // Half an interval is lost per failure, and one checkpoint is written per interval.
  CHECK(1 / bill.goodput - 1 == Approx(1 / young + young / 2 / 1e6).epsilon(1e-2));
}

TEST_CASE("more devices fail more often") {
  BillRates rates{
      .device_mtbf = 50000 * unit::h, .checkpoint_write = 60 * unit::s, .restart = 600 * unit::s};
  double goodput = 1;
  for (const double devices : {1., 100., 10000., 1e6}) {
    BillInput run = a_run();
    run.devices = devices;
    const Bill bill = bill_of(run, rates);
    CHECK(bill.goodput < goodput);
    goodput = bill.goodput;
  }
}

TEST_CASE("the shipped rates can be read, and each is above zero") {
  const auto rates = load_bill_rates(spec::default_library());
  REQUIRE(rates);
  CHECK(rates->price_per_kwh > 0);
  CHECK(rates->price_per_gpu_hour > 0);
  CHECK(rates->pue >= 1);
  CHECK(rates->grams_co2_per_kwh > 0);
  CHECK(rates->device_mtbf > 1 * unit::h);
}

}  // namespace
}  // namespace triplepoint::metrics
