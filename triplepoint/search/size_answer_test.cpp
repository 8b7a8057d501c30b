// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/size_answer.h"

#include "triplepoint/search/testing.h"

namespace triplepoint::search {
namespace {

Sized sized(int64_t nodes, double days, double money) {
  Sized size{.base = test::job_on("gpt3-5b", "dgx-a100", {.nodes = nodes, .batch = 48})};
  size.plan.time = 1;
  size.plan.node_power = 5000;
  size.bill.total = days * 24 * unit::h;
  size.bill.machines = money;
  size.bill.energy = days * as_real(nodes) * unit::MWh;
  return size;
}

TEST_CASE("numbers of nodes are one, doubled, or in steps, and end where they are said to") {
  using Nodes = std::vector<int64_t>;
  CHECK(must(parse_nodes("8")) == Nodes{8});
  CHECK(must(parse_nodes("8..60")) == Nodes{8, 16, 32, 60});
  CHECK(must(parse_nodes("2..7/2")) == Nodes{2, 4, 6, 7});
  for (const char* wrong : {"0", "8..4", "a..b", "1..100000/1", "8..16/0", ""})
    CHECK_FALSE(parse_nodes(wrong));
}

TEST_CASE("money is a number with its thousands or millions, in whatever currency") {
  CHECK(must(parse_money("3 MUSD")) == 3e6);
  CHECK(must(parse_money("250k")) == 250e3);
  CHECK(must(parse_money("1e6")) == 1e6);
  for (const char* wrong : {"", "USD", "-3M", "0"})
    CHECK_FALSE(parse_money(wrong));
}

TEST_CASE("between doubled numbers of nodes lie others, between steps none") {
  CHECK(between_doubled({32, 64, 128}) == std::vector<int64_t>{48, 96});
  CHECK(between_doubled({1, 2, 3}).empty());
  CHECK(between_doubled({8, 16, 20}) == std::vector<int64_t>{12});
}

TEST_CASE("of the sizes that keep all limits the cheapest is taken, of none the nearest is named") {
  const std::vector<Sized> all = {sized(1, 40, 1e6), sized(2, 20, 1.1e6), sized(4, 10, 1.2e6),
                                  sized(8, 11, 2e6)};
  const auto verdict = [&](const SizeLimits& limits) {
    return size_answer(all, limits, {}, all.size()).verdict;
  };
  CHECK(verdict({}).starts_with("Take 1 x dgx-a100"));
  CHECK(verdict({}).ends_with("Tried were 1, 2, 4, 8 nodes; --nodes 1..8/1 tries all between."));
  CHECK(verdict({.time = 25 * 24 * unit::h}).starts_with("Take 2 x dgx-a100"));
  CHECK(verdict({.time = 15 * 24 * unit::h, .money = 1.3e6}).starts_with("Take 4 x dgx-a100"));
  const std::string no = verdict({.time = 9 * 24 * unit::h});
  CHECK(no.starts_with("No: none"));
  CHECK(no.find("Nearest is 4 x dgx-a100") != std::string::npos);
  CHECK(no.find("10.0 of 9.0 days") != std::string::npos);
}

TEST_CASE("a limit inside the interval has a probability, and sizes between those tried a flag") {
  std::vector<Sized> all = {sized(8, 40, 1e6), sized(64, 29, 2e6)};
  for (Sized& each : all)
    each.step_time = metrics::Interval{0.9, 1.2};
  const SizeLimits limits{.time = 30 * 24 * unit::h};
  CHECK(size_answer(all, limits, {}, 3)
            .verdict.starts_with("Interrupted after 2 of 3 sizes, which concludes nothing"));
  const std::string verdict = size_answer(all, limits, {}, 2).verdict;
  CHECK(verdict.starts_with("Take 64 x dgx-a100"));
  // ln(30 / 29) of ln 1.2 / 1.2816: 0.24 standard deviations.
  CHECK(verdict.find("longer than 30.0 days with a probability of 41 %") != std::string::npos);
  CHECK(verdict.find("--nodes 8..64/7") != std::string::npos);
}

TEST_CASE("a size that another beats in everything is not on the front") {
  const answers::Document answer = size_answer({sized(1, 40, 1e6), sized(8, 41, 2e6)}, {}, {}, 2);
  const DataTable& table = answer.sections.back().tables.front();
  const auto front =
      as_size(std::ranges::find(table.columns, "front", &DataColumn::key) - table.columns.begin());
  CHECK(std::get<std::string>(table.rows[0][front]) == "*");
  CHECK(std::get<std::string>(table.rows[1][front]).empty());
}

}  // namespace
}  // namespace triplepoint::search
