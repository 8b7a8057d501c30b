// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/economics/bill.h"

#include <cmath>

#include <doctest/doctest.h>

#include "triplepoint/base/random.h"

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
  const Bill bill = bill_of(run, {.device_mtbf = run.devices * mean, .checkpoint_write = write});
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

/// One GPU in a thousand a week makes steps 1.3 times as long; a test takes two minutes.
BillRates with_slow_gpus() {
  return {.slow = {.every = 7000 * 24 * unit::h, .factor = 1.3, .screen = 2 * unit::min}};
}

TEST_CASE("slow GPUs cost what a simulated job loses to them") {
  const BillRates rates = with_slow_gpus();
  const Bill bill = bill_of(a_run(), rates);
  REQUIRE(bill.screening);
  const Screening& said = *bill.screening;
  const double mean = said.job_interval / unit::s, interval = said.interval / unit::s;
  CHECK(mean == Approx(7 * 24 * 3600));
  double time = 0, done = 0, found = 0;
  for (uint64_t i = 0; i < 400'000; ++i) {
    const double healthy = -mean * std::log(random_uniform({17, 1}, i));
    const double slow = std::max(0.0, interval - healthy);
    time += interval + 120;
    done += interval - slow + slow / 1.3;
    found += slow > 0;
  }
  CHECK(said.loss == Approx(1 - done / time).epsilon(0.01));
  CHECK(said.found == Approx(found / time * (bill.total / unit::s)).epsilon(0.02));
  CHECK(bill.goodput == Approx(1 - said.loss));
  CHECK(as_real(said.spares) > said.found);
}

TEST_CASE("no interval of tests costs clearly less than the square root's") {
  BillRates rates = with_slow_gpus();
  for (const double devices : {16., 1000., 20000.}) {
    BillInput run = a_run();
    run.devices = devices;
    rates.slow.interval = {};
    const Bill best = bill_of(run, rates);
    for (const double factor : {0.3, 0.7, 1.4, 3.}) {
      rates.slow.interval = factor * best.screening->interval;
      CHECK(bill_of(run, rates).screening->loss > 0.99 * best.screening->loss);
    }
  }
}

TEST_CASE("a GPU of forty that is slow from the start meets a job of sixteen by a third") {
  BillRates rates = with_slow_gpus();
  rates.slow.at_start = 0.025;
  BillInput run = a_run();
  run.devices = 16;
  CHECK(bill_of(run, rates).screening->chance_at_start == Approx(1 - std::pow(0.975, 16)));
  CHECK(bill_text(bill_of(run, rates), rates).find("chance of 33 %") != std::string::npos);
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
