// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/jobs/serving.h"

#include <doctest/doctest.h>

namespace triplepoint::calibrate {
namespace {

using doctest::Approx;

const Serving engine{.prefill_tokens = 8192, .sequence_time = 20 * unit::us, .busy_share = 0.5};
const Requests chat{500, 1000};
const PowerInterval decode{10 * unit::ms, 400 * unit::W};
const PowerInterval prompt_token{30 * unit::us, 700 * unit::W};
const Watts rest = 100 * unit::W;

PowerInterval round_of(const Serving& serving, const Requests& task, double sequences,
                       double replicas = 1) {
  return serving_round(serving, task, {sequences, replicas, decode, prompt_token, rest});
}

TEST_CASE("without prompts and without work for each sequence a round is a pass") {
  Serving idle = engine;
  idle.sequence_time = {};
  const PowerInterval round = round_of(idle, {0, 1000}, 64);
  CHECK(round.time / decode.time == Approx(1));
  CHECK(round.power / decode.power == Approx(1));
}

TEST_CASE("time of a round grows in proportion to its sequences, and its energy with it") {
  const auto more = [&](double sequences) { return round_of(engine, chat, sequences); };
  const auto energy = [](const PowerInterval& spell) { return spell.time * spell.power / unit::J; };
  const PowerInterval one = more(100), two = more(200), three = more(300);
  CHECK((two.time - one.time) / (three.time - two.time) == Approx(1));
  CHECK(energy(two) - energy(one) == Approx(energy(three) - energy(two)));
  CHECK(two.power > decode.power);  // prompts draw more than decoding
}

TEST_CASE("replicas share the work for each sequence, not the reading of prompts") {
  const Requests no_prompt{0, 1000};
  const auto time = [&](const Requests& task, double replicas) {
    return round_of(engine, task, 128, replicas).time - decode.time;
  };
  CHECK(time(no_prompt, 1) / time(no_prompt, 4) == Approx(4));
  const Seconds reading = time(chat, 1) - time(no_prompt, 1);
  CHECK(reading / (time(chat, 4) - time(no_prompt, 4)) == Approx(1));
}

TEST_CASE("the shipped engine reads prompts and costs time for each sequence") {
  const auto serving = load_serving(spec::default_library());
  REQUIRE_MESSAGE(serving, serving.error().what);
  CHECK(serving->prefill_tokens > 0);
  CHECK(serving->sequence_time > Seconds());
}

}  // namespace
}  // namespace triplepoint::calibrate
