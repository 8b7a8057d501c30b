// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <utility>

#include <doctest/doctest.h>

#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/store/store.h"
#include "triplepoint/trace_report/analyses.h"
#include "triplepoint/trace_report/operator_work.h"

namespace triplepoint::trace_report {
namespace {

OperatorWork work(const char* name, const char* dims, const char* types, const char* values = "") {
  const auto found =
      work_of(name, arguments_of({.name = name, .dims = dims, .types = types, .values = values}));
  REQUIRE_MESSAGE(found, name);
  return *found;
}

TEST_CASE("products compute 2 m k n, and move each operand once") {
  const OperatorWork mm = work("aten::mm", "[[8, 16], [16, 32]]", R"(["c10::Half", "c10::Half"])");
  CHECK(mm.flops / unit::FLOP == 2 * 8 * 16 * 32);
  CHECK(mm.bytes / unit::B == 2 * (8 * 16 + 16 * 32 + 8 * 32));
  CHECK(mm.precision == spec::Precision::fp16);
  const OperatorWork batched =
      work("aten::bmm", "[[5, 8, 16], [5, 16, 32]]", R"(["float", "float"])");
  CHECK(batched.flops / unit::FLOP == 5 * 2 * 8 * 16 * 32);
  CHECK(work("aten::addmm", "[[32], [8, 16], [16, 32], [], []]",
             R"(["float", "float", "float", "Scalar", "Scalar"])")
            .flops == mm.flops);
}

TEST_CASE("a convolution is a product for each place of its output") {
  // 7 + 2 - 3 over 2, and one: 4 x 4 places.
  const char* const values = R"(["", "", "", "[1, 1]", "[2, 2]", "[1, 1]", "1", "False", "True"])";
  const OperatorWork forward =
      work("aten::miopen_convolution", "[[2, 6, 7, 7], [10, 6, 3, 3], [], [], [], [], [], [], []]",
           R"(["float", "float", "", "ScalarList", "ScalarList", "ScalarList", "Scalar", "", ""])",
           values);
  const double each = 2 * (2 * 10 * 4 * 4) * (6 * 3 * 3);
  CHECK(forward.flops / unit::FLOP == each);
  for (const auto& [mask, times] :
       {std::pair("[True, True, False]", 2), {"[False, True, True]", 1}})
    CHECK(work("aten::convolution_backward", "[[2, 10, 4, 4], [2, 6, 7, 7], [10, 6, 3, 3], []]",
               R"(["float", "float", "float", "ScalarList"])",
               fmt::format(R"(["", "", "", "{}"])", mask).c_str())
                  .flops /
              unit::FLOP ==
          times * each);
}

TEST_CASE("causal attention computes the lower half") {
  const char* const shapes = "[[2, 4, 64, 16], [2, 4, 64, 16], [2, 4, 64, 16], [], []]";
  const char* const types = R"(["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "Scalar", ""])";
  const auto flops = [&](const char* causal) {
    return work("aten::_scaled_dot_product_flash_attention", shapes, types,
                fmt::format(R"(["", "", "", "0.", "{}"])", causal).c_str())
               .flops /
           unit::FLOP;
  };
  CHECK(flops("False") == 4 * 2 * 4 * 64 * 64 * 16);
  CHECK(flops("True") == flops("False") / 2);
}

TEST_CASE("views and calls without shapes have no known work") {
  CHECK(!work_of("aten::view", arguments_of({.dims = "[[4, 4]]", .types = R"(["float"])"})));
  CHECK(!work_of("aten::mm", {}));
  CHECK(!work_of("aten::mm",
                 arguments_of({.dims = "[[4, 5], [4, 4]]", .types = R"(["float", "float"])"})));
  CHECK(work("aten::add_", "[[4, 4], [4]]", R"(["float", "float"])").bytes / unit::B ==
        4 * (16 + 4 + 16));
}

/// Two products, one in a module and its gradient, and a kernel without operator.
constexpr const char* trace = R"({"deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],
"traceEvents": [
{"ph":"X","cat":"python_function","name":"train.py(7): step","pid":1,"tid":1,"ts":0,"dur":90,"args":{}},
{"ph":"X","cat":"python_function","name":"nn.Module: Linear_3","pid":1,"tid":1,"ts":5,"dur":40,"args":{}},
{"ph":"X","cat":"cpu_op","name":"aten::linear","pid":1,"tid":1,"ts":8,"dur":30,"args":{"Sequence number":5,"Input Dims":[[64,128],[256,128]],"Input type":["c10::BFloat16","c10::BFloat16"]}},
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":10,"dur":20,"args":{"Sequence number":5,"Input Dims":[[64,128],[128,256]],"Input type":["c10::BFloat16","c10::BFloat16"]}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":12,"dur":4,"args":{"correlation":1}},
{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":100,"dur":2,"args":{"device":0,"stream":7,"correlation":1}},
{"ph":"X","cat":"cpu_op","name":"autograd::engine::evaluate_function: MmBackward0","pid":1,"tid":2,"ts":50,"dur":30,"args":{"Sequence number":5}},
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":2,"ts":52,"dur":20,"args":{"Input Dims":[[64,256],[256,128]],"Input type":["c10::BFloat16","c10::BFloat16"]}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":2,"ts":54,"dur":4,"args":{"correlation":2}},
{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":110,"dur":4,"args":{"device":0,"stream":7,"correlation":2}},
{"ph":"X","cat":"kernel","name":"mystery","pid":0,"tid":7,"ts":120,"dur":6,"args":{"device":0,"stream":7,"correlation":99}}
]})";

/// With other shapes, a slower product, and a new operator instead of the gradient's.
std::string changed_trace() {
  std::string text = trace;
  const auto replace = [&](std::string_view from, std::string_view to) {
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
  };
  replace(R"("dur":20,"args":{"Sequence number":5,"Input Dims":[[64,128],[128,256]])",
          R"("dur":20,"args":{"Sequence number":5,"Input Dims":[[32,128],[128,256]])");
  replace(R"("ts":100,"dur":2)", R"("ts":100,"dur":3)");
  replace(R"("aten::mm","pid":1,"tid":2)", R"("aten::bmm","pid":1,"tid":2)");
  return text;
}

TEST_CASE("operators of two traces are aligned by module and order, and their changes add up") {
  const ScratchFolder place;
  const auto compared = [&](int64_t top) {
    const TraceOptions options{
        .analysis = "diff",
        .files = {place.file("a.json", trace), place.file("b.json", changed_trace())},
        .show = "operators",
        .top = top};
    const auto report = must(trace_diff(options));
    return std::ranges::find(report.tables, "operators", &DataTable::name)->rows;
  };
  const auto text = [](const DataCell& cell) { return std::get<std::string>(cell); };
  const auto rows = compared(10);
  REQUIRE(rows.size() == 4);
  // The new one and the gone one moved by 4 us each, the product by 1, what has no operator by 0.
  CHECK(text(rows[0][1]) == "aten::mm");
  CHECK(text(rows[0][2]) == "backward");
  CHECK(!number_in(rows[0][8]));
  CHECK(text(rows[1][1]) == "aten::bmm");
  CHECK(!number_in(rows[1][7]));
  CHECK(text(rows[2][0]) == "Linear_3");
  CHECK(text(rows[2][4]) == "64x128 128x256 -> 32x128 128x256");
  CHECK(*number_in(rows[2][9]) == 1000);
  CHECK(*number_in(rows[2][10]) == doctest::Approx(2 * 64 * 128 * 256 / 2e-6));
  CHECK(*number_in(rows[2][11]) == doctest::Approx(2 * 32 * 128 * 256 / 3e-6));
  CHECK(text(rows[3][1]) == "(no operator)");
  for (const int64_t top : {1, 2, 10}) {
    double before = 0, after = 0, difference = 0;
    for (const auto& row : compared(top)) {
      before += number_in(row[7]).value_or(0);
      after += number_in(row[8]).value_or(0);
      difference += *number_in(row[9]);
    }
    CHECK(before == doctest::Approx(12000));
    CHECK(after == doctest::Approx(13000));
    CHECK(difference == doctest::Approx(1000));
  }
}

TEST_CASE("of boards of one name, the traces' is the one with their memory") {
  const auto gpu = [](const char* name, double gib) {
    run::Run run;
    run.manifest.facts = {{"device", name}};
    run.numbers.gpu_memory_b = gib * unit::GiB / unit::B;
    return gpu_of_traces(spec::default_library(), run);
  };
  CHECK(gpu("NVIDIA A100-PG509-200", 39.39) == "a100-40gb");
  CHECK(gpu("NVIDIA A100-SXM4-80GB", 79.15) == "a100-80gb");
  CHECK(gpu("AMD Instinct MI300X VF", 191.5) == "mi300x");
  CHECK(gpu("NVIDIA H200", 139.8) == "h200");
  CHECK(gpu("Some GPU", 80) == std::nullopt);
}

TEST_CASE("kernels are those of the operators around their launches") {
  const ScratchFolder place;
  const TraceOptions options{.analysis = "operators", .files = {place.file("rank0.json", trace)}};
  const auto report = must(trace_operators(options));
  const auto rows = [&](const char* name) {
    return std::ranges::find(report.tables, name, &DataTable::name)->rows;
  };
  const auto text = [](const DataCell& cell) { return std::get<std::string>(cell); };
  const auto operators = rows("operators");
  REQUIRE(operators.size() == 2);
  CHECK(text(operators[0][1]) == "backward");
  CHECK(text(operators[1][1]) == "forward");
  CHECK(text(operators[1][4]) == "64x128 128x256");
  CHECK(text(operators[1].back()) == "train.py(7): step");
  // TFLOP/s of 2 x 64 x 128 x 256 in 2 us.
  CHECK(*number_in(operators[1][11]) == doctest::Approx(2 * 64 * 128 * 256 / 2e-6));
  const auto modules = rows("modules");
  REQUIRE(modules.size() == 1);
  CHECK(text(modules[0][0]) == "Linear_3");
  CHECK(contains(report.headlines.front(), "50.0 % of all kernel time belongs to no operator"));
  // The roof is the GPU's, though no operator comes near its knee.
  CHECK(report.roof->type == "c10::BFloat16");
  CHECK(report.roof->peak == doctest::Approx(989e12).epsilon(0.01));
  CHECK(report.roof->bandwidth == doctest::Approx(3.35e12).epsilon(0.01));
}

/// Steps of 12.9 ms: a product, its gradient, a sum and a gap, each at its own power.
struct MeteredSteps {
  struct Part {
    const char* name;
    const char* arguments;
    int64_t length;  // us
    double watts;
  };
  static constexpr std::array parts = {
      Part{"aten::mm",
           R"("Input Dims":[[64,128],[128,256]],"Input type":["c10::BFloat16","c10::BFloat16"])",
           6100, 620},
      Part{"aten::mm",
           R"("Input Dims":[[64,256],[256,128]],"Input type":["c10::BFloat16","c10::BFloat16"])",
           2700, 480},
      Part{"aten::add_", R"("Input Dims":[[64,64],[64]],"Input type":["float","float"])", 3000,
           310},
      Part{nullptr, "", 1100, 95}};
  static constexpr int64_t steps = 800, base = 1'700'000'000'000'000'000;
  run::Run recording;
  std::string trace;

  explicit MeteredSteps(double noise = 0) {
    std::mt19937_64 random(5);
    std::string events;
    run::Series power{.signal = "power_w", .device = 0};
    int64_t now = 1000, id = 0, next = 100'000;  // us
    double joules = 0, at_last = 0;
    for (int64_t step = 0; step < steps; ++step)
      for (const Part& part : parts) {
        ++id;
        if (part.name != nullptr)
          events += event("cpu_op", part.name, 1, now - 20, 15, part.arguments) +
                    event("cuda_runtime", "cudaLaunchKernel", 1, now - 15, 5,
                          fmt::format("\"correlation\":{}", id)) +
                    event("kernel", "kernel", 0, now, part.length,
                          fmt::format("\"device\":0,\"stream\":7,\"correlation\":{}", id));
        for (const int64_t end = now + part.length; now < end;) {
          const int64_t until = std::min(end, next);
          joules += part.watts * 1e-6 * as_real(until - now);
          now = until;
          if (now < next) continue;
          power.times.emplace_back(1000 * now);
          const double error = noise * (as_real(random() % 2001) / 1000 - 1);
          power.values.push_back((joules - at_last) / 0.1 + error);
          at_last = joules;
          next += 100'000;
        }
      }
    events.pop_back();
    trace = fmt::format(
        R"({{"baseTimeNanoseconds": {}, "deviceProperties": [{{"id": 0, "name": "NVIDIA H100 80GB HBM3"}}],
"traceEvents": [{}]}})",
        base, events);
    recording.manifest.epoch_unix_ns = base;
    recording.devices = {{.index = 0, .name = "NVIDIA H100 80GB HBM3", .rank = 0}};
    recording.series = {std::move(power)};
  }
  static std::string event(const char* category, const char* name, int process, int64_t begin,
                           int64_t length, std::string_view arguments) {
    return fmt::format(
        R"({{"ph":"X","cat":"{}","name":"{}","pid":{},"tid":7,"ts":{},"dur":{},"args":{{{}}}}},)",
        category, name, process, begin, length, arguments);
  }
};

TEST_CASE("a recording tells the joules of each operator, and of its flops") {
  const ScratchFolder place;
  const MeteredSteps metered;
  must(run::save(metered.recording, place.path("job.run")));
  const TraceOptions options{
      .analysis = "operators",
      .files = {place.file("rank0.json", metered.trace), place.path("job.run")}};
  const auto report = must(trace_operators(options));
  const auto cell = [&](const char* table_name, size_t row, const char* key) {
    const auto table = std::ranges::find(report.tables, table_name, &DataTable::name);
    const auto column = std::ranges::find(table->columns, key, &DataColumn::key);
    REQUIRE(column != table->columns.end());
    return table->rows[row][as_size(column - table->columns.begin())];
  };
  for (size_t row = 0; row < 3; ++row) {  // by time: product, sum, gradient
    const auto& part = MeteredSteps::parts[row == 0 ? 0 : 3 - row];
    CAPTURE(part.name);
    const double joules = part.watts * 1e-6 * as_real(part.length);
    CHECK(*number_in(cell("operators", row, "energy_per_call_j")) ==
          doctest::Approx(joules).epsilon(0.02));
    CHECK(*number_in(cell("operators", row, "energy_j")) ==
          doctest::Approx(joules * MeteredSteps::steps).epsilon(0.02));
  }
  CHECK(*number_in(cell("operators", 0, "energy_per_flop_j")) ==
        doctest::Approx(620 * 6.1e-3 / (2 * 64 * 128 * 256)).epsilon(0.02));
  CHECK(!number_in(cell("operators", 1, "energy_per_flop_j")));  // a sum of 0 flops
  // The kind's joules are those of its operators, whose powers differ.
  CHECK(std::get<std::string>(cell("operators", 0, "power_of")) == "operator");
  CHECK(*number_in(cell("kinds", 0, "energy_j")) ==
        doctest::Approx(800 * (620 * 6.1e-3 + 480 * 2.7e-3)).epsilon(0.02));
  CAPTURE(report.headlines.front());
  CHECK(contains(report.headlines.front(), "idle 1.7 %"));
}

TEST_CASE("joules of operators add up to the recording's, whatever its noise") {
  const ScratchFolder place;
  const double truth = MeteredSteps::steps * (620 * 6.1e-3 + 480 * 2.7e-3 + 310 * 3e-3);
  for (const double noise : {5.0, 20.0, 50.0}) {
    CAPTURE(noise);
    const MeteredSteps metered(noise);
    must(run::save(metered.recording, place.path("job.run")));
    const auto report = must(trace_operators(
        {.analysis = "operators",
         .files = {place.file("rank0.json", metered.trace), place.path("job.run")}}));
    const auto table = std::ranges::find(report.tables, "operators", &DataTable::name);
    const auto column = as_size(std::ranges::find(table->columns, "energy_j", &DataColumn::key) -
                                table->columns.begin());
    double all = 0;
    for (size_t row = 0; row < 3; ++row) {
      const auto& part = MeteredSteps::parts[row == 0 ? 0 : 3 - row];
      const double joules = *number_in(table->rows[row][column]);
      all += joules;
      const double right = MeteredSteps::steps * part.watts * 1e-6 * as_real(part.length);
      CHECK(std::abs(joules - right) <= 3 * *number_in(table->rows[row][column + 1]));
    }
    CHECK(all == doctest::Approx(truth).epsilon(0.025));  // idle, 2 %, is hard to tell
  }
}

TEST_CASE("without power, an operator's joules are missing with the reason, not zero") {
  const ScratchFolder place;
  MeteredSteps metered;
  metered.recording.series[0].signal = "die_c";
  must(run::save(metered.recording, place.path("job.run")));
  const auto report = must(
      trace_operators({.analysis = "operators",
                       .files = {place.file("rank0.json", metered.trace), place.path("job.run")}}));
  CHECK(contains(report.headlines.front(), "the energy is not known"));
  const auto table = std::ranges::find(report.tables, "operators", &DataTable::name);
  const auto column = std::ranges::find(table->columns, "energy_j", &DataColumn::key);
  CHECK(std::get<Missing>(table->rows[0][as_size(column - table->columns.begin())]).why ==
        "the run has no power of this device");
}

}  // namespace
}  // namespace triplepoint::trace_report
