// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/logs/training_log.h"

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "triplepoint/trace/logs/lines.h"

namespace triplepoint::trace {

namespace {

TrainingLog parsed(std::string text) {
  Input input = Input::of_text(std::move(text), "train.log");
  auto log = parse_training_log(input);
  REQUIRE_MESSAGE(log, log.error().what);
  return *log;
}

/// A span per step whose length is known.
std::vector<run::Span> spans_of(const std::string& text) {
  Input input = Input::of_text(text, "train.log");
  return read_training_log(input, {}).value().timeline.spans;
}

std::string megatron_step(int step, double ms, bool stamped = true) {
  return fmt::format(
      "{} iteration {:8}/   50000 | consumed samples: {:12} | elapsed time per iteration (ms): "
      "{:.1f} | throughput per GPU (TFLOP/s/GPU): 412.3 | learning rate: 1.500000E-04 | global "
      "batch size:   256 | lm loss: {:.6E} | loss scale: 1.0 | grad norm: 1.250 | number of "
      "skipped iterations:   0 |\n",
      stamped ? fmt::format(" [2024-03-14 23:07:{:02}]", step) : "", step, 256 * step, ms,
      10. / step);
}

}  // namespace

TEST_CASE("a Megatron-LM log gives time and samples of its steps") {
  for (const bool stamped : {true, false}) {
    std::string text = "  seq_length ...................................... 4096\n";
    for (int step = 10; step < 20; ++step)
      text += megatron_step(step, 800 + step, stamped);
    const TrainingLog log = parsed(text);
    CHECK(log.framework == "megatron-lm");
    CHECK(log.sequence_length == 4096);
    REQUIRE(log.steps.size() == 10);
    for (const LoggedStep& step : log.steps) {
      CHECK(*step.time / unit::ms == doctest::Approx(800 + step.step));
      CHECK(step.samples == 256);
      CHECK(step.tokens == 256 * 4096);
      CHECK(step.at.has_value() == stamped);
    }
    const std::vector<run::Span> records = spans_of(text);
    REQUIRE(records.size() == 10);
    CHECK(records.front().begin == Instant());
    for (size_t i = 0; i < records.size(); ++i)
      CHECK((records[i].end - records[i].begin) / unit::ms == doctest::Approx(810. + as_real(i)));
    // Stamps come a second apart, and steps in between are shorter.
    if (stamped) CHECK((records[9].end - records[0].end) / unit::s == doctest::Approx(9));
  }
}

TEST_CASE("a scalar of TensorBoard as CSV gives steps by their wall times") {
  std::string text = "Wall time,Step,Value\n";
  for (int i = 0; i < 30; ++i)
    text += fmt::format("{:.3f},{},{}\n", 1710457622.25 + 12.5 * i, 10 * i, 3.2 - 0.01 * i);
  CHECK(looks_like_training_log(text));
  const TrainingLog log = parsed(text);
  REQUIRE(log.steps.size() == 30);
  CHECK(*log.steps.back().time / unit::s == doctest::Approx(1.25));
  CHECK(spans_of(text).size() == 290);
}

TEST_CASE("Composer tells the rate of a batch some lines below its number") {
  std::string text;
  for (int batch = 1; batch <= 20; ++batch)
    text += fmt::format(
        "[batch={}/4800]:\n\t Train time/batch: {}\n\t Train loss/train/total: 9.1\n{}", batch,
        batch - 1, batch > 2 ? "\t Train throughput/batches_per_sec: 0.2500\n" : "");
  CHECK(looks_like_training_log(text));
  const TrainingLog log = parsed(text);
  CHECK(log.framework == "composer");
  REQUIRE(log.steps.size() == 18);
  CHECK(log.steps.front().step == 3);
  CHECK(*log.steps.back().time / unit::s == doctest::Approx(4));
}

TEST_CASE("a log that begins again says how many steps ran twice") {
  std::string text;
  for (const auto& [first, last] : {std::pair(1, 40), {31, 60}})
    for (int step = first; step <= last; ++step)
      text += megatron_step(step, 900, false);
  Input input = Input::of_text(text, "train.log");
  const Trace trace = read_training_log(input, {}).value();
  CHECK(trace.numbers.restarts == 1);
  CHECK(trace.numbers.steps_run_again == 10);
}

TEST_CASE("the oldest Megatron lines, without colons, are understood") {
  const TrainingLog log = parsed(
      " iteration       10/     100 | elapsed time per iteration (ms): 8120.3 | "
      "learning rate 1.500E-04 | lm loss 1.041E+01 | loss scale 4294967296.0 |\n");
  REQUIRE(log.steps.size() == 1);
  CHECK(*log.steps[0].time / unit::ms == doctest::Approx(8120.3));
}

TEST_CASE("NeMo's progress bar and its lines give the same steps") {
  std::string bar, lines;
  for (int step = 0; step < 5; ++step) {
    bar += fmt::format(
        "Epoch 0: :   4%|\u258d   | {}/500 [05:01<2:00:31, v_num=0, reduced_train_loss={:.3f}, "
        "global_step={}.00, consumed_samples={}.0, train_step_timing in s=3.130]\r",
        step + 1, 9. - step, step, 128 * (step + 1));
    lines += fmt::format(
        "Training epoch 0, iteration {}/249 | lr: 1.961e-06 | global_batch_size: 128 | "
        "global_step: "
        "{} | reduced_train_loss: {:.3f} | train_step_timing in s: 3.130 | consumed_samples: {}\n",
        step, step, 9. - step, 128 * (step + 1));
  }
  const TrainingLog from_bar = parsed(bar), from_lines = parsed(lines);
  REQUIRE(from_bar.steps.size() == 5);
  REQUIRE(from_lines.steps.size() == 5);
  for (size_t i = 0; i < 5; ++i) {
    CHECK(from_bar.steps[i].step == from_lines.steps[i].step);
    CHECK(from_bar.steps[i].time == from_lines.steps[i].time);
  }
  CHECK(from_lines.steps[0].samples == 128);
  CHECK(from_bar.framework == "nemo");
  CHECK(spans_of(bar).size() == 5);
}

TEST_CASE("torchtitan's steps get their time from the stamps, and colours do not matter") {
  std::string plain, coloured;
  for (int step = 1; step <= 4; ++step) {
    const std::string stamp =
        fmt::format("[rank0]:[titan] 2025-03-12 11:10:{:02},250 - root - INFO - ", 10 + 2 * step);
    plain += stamp + fmt::format(
                         "step: {:2}  loss:  6.2250  memory:  1.50GiB(1.79%)  tps: 193,831  "
                         "tflops: 18.36  mfu: 1.86%\n",
                         step);
    coloured += stamp + fmt::format(
                            "\x1b[31mstep: {:2}  \x1b[32mloss:  6.2250  \x1b[33mmemory:  "
                            "1.50GiB(1.79%)  \x1b[34mtps: 193,831  \x1b[36mtflops: 18.36  "
                            "\x1b[35mmfu: 1.86%\x1b[39m\n",
                            step);
  }
  const TrainingLog log = parsed(plain);
  CHECK(log.steps == parsed(coloured).steps);
  REQUIRE(log.steps.size() == 4);
  CHECK_FALSE(log.steps[0].time);  // nothing says when it began
  CHECK(*log.steps[1].time / unit::s == doctest::Approx(2));
  CHECK(spans_of(plain).size() == 3);
}

TEST_CASE("ranks that write into each other's lines do not double the steps") {
  std::string one = megatron_step(3, 500), two = megatron_step(4, 510);
  one.pop_back();
  const TrainingLog log = parsed("8: " + one + two + "7: " + one + "\n" + two);
  REQUIRE(log.steps.size() == 2);
  CHECK(log.steps[0].step == 3);
  CHECK(log.steps[1].step == 4);
  CHECK(log.repeated == 2);
}

/// Of all steps, seconds; each counts once.
double mean_step(const std::string& text) {
  double all = 0;
  const std::vector<run::Span> spans = spans_of(text);
  for (const run::Span& span : spans)
    all += (span.end - span.begin) / unit::s;
  return all / as_real(spans.size());
}

TEST_CASE("a line that is the mean of several steps counts as each of them") {
  std::string text = megatron_step(1, 30'000, false);
  for (int step = 10; step <= 50; step += 10)
    text += megatron_step(step, 10'000, false);
  CHECK(spans_of(text).size() == 50);
  CHECK(mean_step(text) == doctest::Approx((30 + 49 * 10) / 50.));
}

TEST_CASE("steps that a training runs again after a restart are steps, and that is told") {
  const auto line = [](int minute, int second, int step, int ms) {
    std::string text = megatron_step(step, ms, false);
    return fmt::format("[2025-01-01 10:{:02}:{:02}]{}", minute, second, text);
  };
  std::string text;
  for (int i = 0; i < 5; ++i)
    text += line(0, 10 * i, 500 + i, 10'000);
  for (int i = 0; i < 5; ++i)
    text += line(30, 5 * i, 502 + i, 5000);
  CHECK(spans_of(text).size() == 10);
  CHECK(mean_step(text) == doctest::Approx(7.5));
  Input input = Input::of_text(text, "x.log");
  CHECK(read_training_log(input, {}).value().skipped.notes.size() == 1);
}

TEST_CASE("other tools' logs are read by their own words, and are no other tool's") {
  std::string deepspeed, maxtext, mlperf, bar, own;
  for (int i = 10; i < 14; ++i) {
    deepspeed += fmt::format(
        "[2024-05-01 12:00:{0},123] [INFO] [logging.py:96:log_dist] [Rank 0] step={0}, skipped=0, "
        "lr=[1e-05]\nsteps: {0} loss: 2.3 iter time (s): 1.250 samples/sec: 51.2\n",
        i);
    maxtext +=
        fmt::format("completed step: {}, seconds: 1.250, TFLOP/s/device: 400.1, loss: 10.8\n", i);
    mlperf += fmt::format(
        R"(0: :::MLLOG {{"time_ms": {}, "key": "tracked_stats", "value": {{"train_step_time": 1.25}}, )"
        R"("metadata": {{"step": {}}}}})"
        "\n",
        1'700'000'000'000 + 1250 * i, i);
    bar += fmt::format("\r {0}%|#4 | {0}/100 [00:{1:02}<01:40,  1.25s/it]", i, 5 * i - 45);
    own += fmt::format("training step: {}, loss: 2.31, sec/step: 1.25\n", i);
  }
  struct Case {
    std::string text, framework;
    double seconds;
  };
  for (const Case& one :
       {Case{deepspeed, "deepspeed", 1.25}, Case{maxtext, "maxtext", 1.25},
        Case{mlperf, "mlperf", 1.25}, Case{bar, "progress bar", 5}, Case{own, "own loop", 1.25},
        Case{"{'loss': 2.3, 'epoch': 0.5}\n{'train_runtime': 100.0, 'train_steps_per_second': "
             "0.1}\n",
             "hugging face", 10}}) {
    CAPTURE(one.framework);
    CHECK(looks_like_training_log(one.text));
    CHECK(parsed(one.text).framework == one.framework);
    CHECK(mean_step(one.text) == doctest::Approx(one.seconds));
  }
}

TEST_CASE("of several progress bars that of the training is read") {
  const auto bar = [](const std::string& words, int step, int all, int seconds) {
    return fmt::format("\r{}{:3}%|#4  | {}/{} [{:02}:{:02}<01:00, 1.0s/it]", words,
                       100 * step / all, step, all, seconds / 60, seconds % 60);
  };
  std::string text = bar("Sanity Checking DataLoader 0: ", 1, 2, 1) + "\n";
  for (int i = 1; i <= 40; ++i)
    text += bar("Map (num_proc=8): ", i * 1000, 40'000, 90 * i);
  for (int step = 1; step <= 40; ++step) {
    text += bar("", step, 40, 30 * step);
    for (int i = 1; i <= 50 && step % 10 == 0; ++i)
      text += bar(step == 10 ? "Evaluating: " : "", i, 50, i / 2);
  }
  CHECK(mean_step(text) == doctest::Approx(30));
  CHECK(parsed(text).bars == 2);  // the nameless evaluations are the other one
  text += "\n{'train_runtime': 4000.0, 'train_steps_per_second': 0.01}\n";
  CHECK(parsed(text).framework == "progress bar");
  CHECK(mean_step(text) == doctest::Approx(30));
  std::string epochs;  // an outer bar of epochs, which runs longer
  for (int i = 1; i <= 90; ++i)
    epochs +=
        bar("Training: ", i, 90, 2 * i) + (i % 30 == 0 ? bar("Epochs: ", i / 30, 3, 3 * i) : "");
  CHECK(mean_step(epochs) == doctest::Approx(2));
}

TEST_CASE("a time that grows from step to step is since the beginning") {
  std::string elapsed, noisy;
  for (int i = 1; i <= 40; ++i) {  // epochs of ten
    elapsed += fmt::format("step {} loss 2.1 time {:.1f}s\n", i, 2.5 * ((i - 1) % 10 + 1));
    noisy += fmt::format("step {} loss 2.1 time {:.1f}s\n", i, i == 1 ? 9.0 : 2.5);
  }
  CHECK(mean_step(elapsed) == doctest::Approx(2.5));
  CHECK(parsed(elapsed).has_elapsed_times);
  CHECK_FALSE(parsed(noisy).has_elapsed_times);
}

TEST_CASE("each epoch's bar goes on where that of the epoch before ended") {
  std::string text;
  for (int step = 0; step < 90; ++step)
    text += fmt::format("\rEpoch {}: {}/30 |#  | {:3}%| {}/30 [{:02}:{:02}<00:10, v_num=0]",
                        step / 30, step % 30 + 1, 3 * (step % 30), step % 30 + 1,
                        2 * (step % 30 + 1) / 60, 2 * (step % 30 + 1) % 60);
  CHECK(mean_step(text) == doctest::Approx(2));
  CHECK(spans_of(text).size() == 89);
  CHECK(spans_of(text).back().end - spans_of(text).front().begin == 178 * unit::s);
}

TEST_CASE("a loop tells its time before a word, in JSON, below titles, or by stamps") {
  const auto lines = [](auto&& line_of) {
    std::string text;
    for (int i = 1; i < 40; ++i)
      text += line_of(i) + "\n";
    return text;
  };
  const std::string titles = "step,loss,step_time\n";
  for (const std::string& text :
       {lines([](int i) { return fmt::format("Step {}/90 | Loss 2.1 | 2.00s/step | 33 GB", i); }),
        lines([](int i) { return fmt::format("step {} loss 2.1 lr 1e-4 0.5 it/s", i); }),
        lines([](int i) { return fmt::format(R"({{"step": {}, "loss": 2.1, "time": 2.0}})", i); }),
        lines([](int i) {
          return fmt::format(R"({{"_step": {}, "loss": 2.1, "_timestamp": {}}})", i, 1.7e9 + 2 * i);
        }),
        lines([](int i) {
          return fmt::format(
              R"({{"current_steps": {}, "loss": 2.1, "elapsed_time": "0:{:02}:{:02}"}})", i,
              2 * i / 60, 2 * i % 60);
        }),
        lines([](int i) {
          return fmt::format(
              "{{'loss': '2.1', 'global_step/max_steps': '{}/90', 'elapsed_time': "
              "'{}m {}s', 'train_speed(s/it)': '9.5'}}",
              i, 2 * i / 60, 2 * i % 60);
        }),
        titles + lines([](int i) { return fmt::format("{},2.1,2.0", i); }), lines([](int i) {
          return fmt::format("iter {} step {} | loss 2.1 | iter time: 2000.0 ms", i, i / 4);
        }),
        lines([](int i) {
          return fmt::format("2025-03-01 10:{:02}:{:02},500 INFO epoch {} step {} loss 2.1",
                             2 * i / 60, 2 * i % 60, i / 20, i % 20);
        })}) {
    CAPTURE(text.substr(0, 80));
    CHECK(looks_like_training_log(text));
    CHECK(mean_step(text) == doctest::Approx(2));
    CHECK(parsed(text).restarts == 0);
  }
  CHECK_FALSE(looks_like_training_log(R"({"step": 3, "time": 12.0})"));
  const std::string said = "2025-03-01 10:00:00 INFO loss of validation at iteration 0: 10.5\n";
  CHECK(parsed(said + megatron_step(1, 1000) + megatron_step(2, 1000)).framework == "megatron-lm");
}

/// Steps of two seconds, twenty before 0 o'clock and twenty after it.
std::string dated_log(std::string_view last_day, std::string_view next_day) {
  std::string text;
  for (int i = -20; i < 20; ++i)
    text += fmt::format("{} {:02}:{:02}:{:02}.500 - INFO - step: {} loss: 2.1\n",
                        i < 0 ? last_day : next_day, i < 0 ? 23 : 0, i < 0 ? 59 : 2 * i / 60,
                        i < 0 ? 60 + 2 * i : 2 * i % 60, i + 21);
  return text;
}

TEST_CASE("dates with the day or the month first are what makes the log short") {
  for (const auto& [last, next] : {std::pair("09/18/2025", "09/19/2025"),
                                   {"18/09/2025", "19/09/2025"},
                                   {"18.09.2025", "19.09.2025"},
                                   {"05/06/2025", "05/07/2025"},
                                   {"06/05/2025", "07/05/2025"},
                                   {"12/05/2025", "13/05/2025"}})
    CHECK(spans_of(dated_log(last, next)).back().end.nanoseconds() < 100'000'000'000);
  CHECK(parsed(dated_log("05/06/2025", "05/07/2025")).notes.empty());
  CHECK(parsed(dated_log("05/06/2025", "05/06/2025").substr(0, 900)).notes.size() == 1);
}

TEST_CASE("the hour that no clock shows in spring is no pause") {
  const auto log = [](const char* day) {
    std::string text;
    for (int i = 0; i < 60; ++i)
      text += fmt::format(
          " [{} {:02}:{:02}:{:02}] iteration {}/ 90 | elapsed time per iteration "
          "(ms): 2000.0 |\n",
          day, i < 30 ? 1 : 3, i < 30 ? 59 : 2 * (i - 30) / 60, i < 30 ? 2 * i : 2 * (i - 30) % 60,
          i + 1);
    return (spans_of(text).back().end - spans_of(text).front().begin) / unit::s;
  };
  CHECK(log("2025-03-30") == doctest::Approx(120));
  CHECK(log("2025-03-31") == doctest::Approx(3720));
}

TEST_CASE("a batch that grows is known by the rate of samples, too") {
  std::string text;
  for (int i = 1; i <= 60; ++i)
    text += fmt::format(
        " samples/sec: {:.3f} | iteration {:8}/ 60 | elapsed time per iteration (ms): {:.1f} |\n",
        32.0, i, i <= 20 ? 1000.0 : 2000.0);
  CHECK(parsed(text).steps.front().samples == 32);
  CHECK(mean_step(text) == doctest::Approx(2));
}

TEST_CASE("a number of a step that is broken is no restart, and is told") {
  std::string text;
  for (int step = 10; step < 20; ++step) {
    std::string line = megatron_step(step, 1000);
    if (step == 14) line.replace(line.find("      14/"), 9, "       0/");
    text += line;
  }
  const TrainingLog log = parsed(text);
  CHECK(log.restarts == 0);
  CHECK(log.steps.size() == 9);
  CHECK(log.unread == 1);
}

TEST_CASE("steps of nanotron, OLMo-core, plain loops and the Trainer's files are read") {
  std::string nanotron, olmo, plain, average, seconds;
  for (int i = 1; i < 9; ++i) {
    nanotron += fmt::format(
        "2025-01-01 10:00:{:02}|INFO|DP=0]: iteration: {} / 100 | "
        "elapsed_time_per_iteration_ms: 2.05K | lm_loss: 11.2\n",
        2 * i, i);
    olmo +=
        fmt::format("2025-01-01 10:00:{:02}.000 host:0 INFO [step={}/1000,epoch=1]\n", 2 * i, i);
    plain += fmt::format("iter {}: loss 4.1234, time 135.20ms, mfu 40.2%\n", i);
    average +=
        fmt::format("step:{0}/1000 loss:3.2 train_time:{1}ms step_avg:140.10ms\n", i, 140 * i);
    seconds += fmt::format(" iteration {}/ 10 | elapsed time per iteration (s): 10.50 |\n", i);
  }
  const auto mean_is = [](const std::string& text, double s) {
    CHECK(looks_like_training_log(text));
    CHECK(mean_step(text) == doctest::Approx(s));
  };
  mean_is(nanotron, 2.05);
  mean_is(olmo, 2);
  mean_is(plain, 0.1352);
  mean_is("Epoch 1 | iter 1 | loss: 2.3 | iter time: 350.25 ms\n", 0.35025);
  mean_is(average, 0.14);
  mean_is(seconds, 10.5);
  mean_is(
      "***** train metrics *****\n  train_runtime = 0:03:20.00\n  train_steps_per_second = 0.5\n",
      2);
  mean_is("{\n \"train_runtime\": 200.0,\n \"train_steps_per_second\": 0.5\n}\n", 2);
}

TEST_CASE("a log without steps is an error that says what was looked for") {
  for (const char* text : {"", "hello\n", "iteration  5/10 |\n", "step: loss: nan\n"}) {
    Input input = Input::of_text(text, "x.log");
    const auto log = parse_training_log(input);
    REQUIRE_FALSE(log);
    CHECK(log.error().what.find("torchtitan") != std::string::npos);
  }
}

TEST_CASE("a training log is a trace of its steps") {
  Input input = Input::of_text(megatron_step(3, 500) + megatron_step(4, 500), "x.log");
  const auto trace = read_training_log(input, {});
  REQUIRE(trace);
  CHECK(trace->timeline.spans.size() == 2);
  CHECK_FALSE(run::find_fault(trace->timeline));
  CHECK(looks_like_training_log(megatron_step(3, 500)));
  CHECK_FALSE(looks_like_training_log("{\"traceEvents\": []}"));
}

TEST_CASE("time stamps are read to the microsecond, and impossible dates are none") {
  CHECK(last_stamp("[1970-01-02 00:00:01,500]")->time.nanoseconds() == 86401500000000);
  CHECK(last_stamp("a 2024-03-14T18:01:24.000001 b")->time.nanoseconds() ==
        last_stamp("2024-03-14 18:01:24")->time.nanoseconds() + 1000);
  CHECK_FALSE(last_stamp("2024-13-14 18:01:24"));
  CHECK_FALSE(last_stamp("2024-03-14"));
  CHECK_FALSE(last_stamp("8024-03-14 18:01:24"));
  CHECK(number_after("a loss: 1, lm loss=2.5e+1", "lm loss") == 25);
  CHECK(number_after("tps: 193,831  x", "tps") == 193831);
  CHECK_FALSE(number_after("xloss: 3", "loss"));
}

TEST_CASE("a broken time is the stamps', and stamps that stand still are none") {
  std::string broken, still;
  for (int step = 1; step < 20; ++step) {
    broken += fmt::format(" [2024-03-14 23:{:02}:{:02}]", step / 6, step % 6 * 10) +
              megatron_step(step, step == 5 ? 0 : 10'000, false);
    still += " [1970-01-01 00:00:00]" + megatron_step(step, 10'000, false);
  }
  for (const std::string& text : {broken, still}) {
    const std::vector<run::Span> spans = spans_of(text);
    CHECK(spans.size() == 19);
    CHECK((spans.back().end - spans.front().begin) / unit::s == doctest::Approx(190));
  }
}

TEST_CASE("a bar of whole seconds tells fast steps as the mean over twenty seconds") {
  for (const double length : {0.1, 0.37, 1.3, 7.3, 33.0}) {
    std::string text;
    for (int step = 1; step <= 600; ++step) {
      const int passed = static_cast<int>(length * step);
      text += fmt::format(" {}%|#   | {}/600 [{:02}:{:02}<01:00, 1.00it/s]\n", step / 6, step,
                          passed / 60, passed % 60);
    }
    const TrainingLog log = parsed(text);
    double worst = 0;
    int64_t covered = 0;
    for (const LoggedStep& step : log.steps)
      if (step.time) {
        worst = std::max(worst, std::abs(*step.time / unit::s / length - 1));
        covered += step.covers;
      }
    CHECK(worst < 0.07);
    CHECK(covered > 350);
  }
}

TEST_CASE("a clock that is set back is no standstill, and that is told") {
  std::string text;
  for (int step = 0; step < 40; ++step) {
    const int minute = step < 20 ? 30 : 20;
    text +=
        fmt::format(" [2024-03-14 23:{}:{:02}]", minute, step) + megatron_step(step, 1'000, false);
  }
  Input input = Input::of_text(text, "train.log");
  const Trace trace = read_training_log(input, {}).value();
  REQUIRE(trace.timeline.spans.size() == 40);
  const Seconds all = trace.timeline.spans.back().end - trace.timeline.spans.front().begin;
  CHECK(all / unit::s == doctest::Approx(40));
  CHECK(std::ranges::count(trace.skipped.notes, "the clock of the log was set back by 600 s") == 1);
}

TEST_CASE("where the batch changes only the longest stretch of one batch is looked at") {
  std::string text;
  for (int step = 1; step <= 50; ++step) {
    std::string line = megatron_step(step, step < 20 ? 1'000 : 4'000, false);
    if (step >= 20) line.replace(line.find("256 | lm"), 3, "999");
    text += line;
  }
  Input input = Input::of_text(text, "train.log");
  const Trace trace = read_training_log(input, {}).value();
  CHECK(trace.timeline.spans.size() == 31);
  CHECK(trace.numbers.samples_per_step == 999);
  REQUIRE(!trace.skipped.notes.empty());
  CHECK(trace.skipped.notes[0].find("from 256 to 999 samples") != std::string::npos);
}

TEST_CASE("lines that do not tell their batch are no lines of another batch") {
  std::string text;
  for (int step = 1; step <= 50; ++step) {
    std::string line = megatron_step(step, 1'000, false);
    if (step < 20) line.replace(line.find("global batch size"), 17, "of something else");
    text += line;
  }
  Input input = Input::of_text(text, "train.log");
  const Trace trace = read_training_log(input, {}).value();
  CHECK(trace.timeline.spans.size() == 50);
  CHECK(trace.skipped.notes.empty());
}

TEST_CASE("a loop that ends its columns in bars tells its milliseconds") {
  const TrainingLog log = parsed(
      "step    1/18865 | loss 7.5 (+0.2z)| norm 2.2 | lr 1.2e-5 | 310.21 ms | 51.3% bf16 MFU |\n"
      "step    2/18865 | loss 7.4 (+0.2z)| norm 2.2 | lr 1.2e-5 | 308.00 ms | 51.3% bf16 MFU |\n");
  REQUIRE(log.steps.size() == 2);
  CHECK(*log.steps[1].time / unit::ms == doctest::Approx(308));
}

}  // namespace triplepoint::trace
