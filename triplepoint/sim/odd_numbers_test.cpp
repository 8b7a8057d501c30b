// SPDX-License-Identifier: Apache-2.0
// Every number of a cluster, its GPU and their calibration, at and beyond the limits that files may
// hold.
#include <algorithm>
#include <array>
#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/spec/fields.h"
#include "triplepoint/spec/job_testing.h"

#include "triplepoint/sim/simulate.h"
#include "triplepoint/sim/step_at_clocks.h"

namespace triplepoint::sim {
namespace {

/// A number of a job by its dotted key.
struct Number {
  std::string key;
  std::function<void(double)> set;
};

/// Collects the numbers of a spec type: the visitor of spec/fields.h.
class Numbers {
 public:
  void operator()(std::string_view key, auto& member, spec::Need = spec::Need::optional) {
    const std::string outer = std::exchange(key_, key_ + "." + std::string(key));
    take(member);
    key_ = outer;
  }
  std::vector<Number> all;

 private:
  void take(double& member) {
    add([&member](double to) { member = to; });
  }
  void take(std::integral auto& member) {
    if constexpr (!std::is_same_v<std::decay_t<decltype(member)>, bool>)
      add([&member](double to) {
        member = static_cast<std::decay_t<decltype(member)>>(std::min(to, 1e9));
      });
  }
  template <Dim D>
  void take(Quantity<D>& member) {
    add([&member](double to) { member = Quantity<D>(to); });
  }
  void take(Celsius& member) {
    add([&member](double to) { member = Celsius(std::min(to, 1000.0)); });
  }
  template <class T>
  void take(std::optional<T>& member) {
    if (member) take(*member);
  }
  template <class T>
  void take(std::vector<T>& member) {
    if (!member.empty()) take(member.front());
  }
  template <class T, size_t N>
  void take(std::array<T, N>& member) {
    take(member.front());
  }
  template <class T>
  requires requires(Numbers& visit, T& member) { spec::visit_fields(visit, member); }
  void take(T& member) { spec::visit_fields(*this, member); }
  void take(auto&) {}

  void add(std::function<void(double)> set) { all.push_back({key_, std::move(set)}); }
  std::string key_;
};

spec::Job job_on(const char* cluster) {
  return spec::job_of_text(
      fmt::format("model = \"gpt3-1.3b\"\ncluster = \"{}\"\nnodes = 2\n"
                  "[plan]\ntensor_parallel_size = 4\n"
                  "pipeline_parallel_size = 2\nglobal_batch_size = 8\n",
                  cluster));
}

/// Simulated and finite, or refused by a sentence.
bool is_told(const spec::Job& job) try {
  if (spec::has_errors(spec::diagnose(job))) return true;
  const run::Run run = simulate(job, {});
  return !run::find_fault(run.timeline) &&
         (run.steps.empty() || run.steps[0].end > run.steps[0].begin);
} catch (const StepTooLong&) {
  return true;
}

TEST_CASE("a cluster of any numbers simulates or is refused") {
  const spec::Job job = job_on("hgx-h200");
  size_t count = 1;
  for (size_t i = 0; i < count; ++i)
    for (const double value : {0.0, 1e-9, 1e9}) {
      spec::Job changed = job;
      Numbers numbers;
      numbers("cluster", changed.cluster);
      count = numbers.all.size();
      numbers.all[i].set(value);
      CAPTURE(numbers.all[i].key);
      CAPTURE(value);
      CHECK(is_told(changed));
    }
  CHECK(count > 100);
}

}  // namespace
}  // namespace triplepoint::sim
