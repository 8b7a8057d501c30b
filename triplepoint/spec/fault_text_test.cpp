// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/fault_text.h"

#include <doctest/doctest.h>

namespace triplepoint::spec {
namespace {

Fault read(std::string_view text) {
  const Result<Fault> fault = parse_fault(text);
  REQUIRE_MESSAGE(fault.has_value(), fault.error().what);
  return *fault;
}

std::string refusal(std::string_view text) {
  const Result<Fault> fault = parse_fault(text);
  REQUIRE(!fault.has_value());
  return fault.error().what;
}

TEST_CASE("a line says where, what and when") {
  const Fault cap = read("gpu=3,power=0.25@120s..300s");
  CHECK(cap.kind == FaultKind::power);
  CHECK(cap.gpu == 3);
  CHECK(cap.share == 0.25);
  CHECK(cap.begin == 120 * unit::s);
  CHECK(cap.end == 300 * unit::s);
  const Fault heat = read("inlet=+10@5min..20min");
  CHECK(heat.rise == 10 * unit::K);
  CHECK(heat.end == 1200 * unit::s);
  CHECK(!heat.node);
  const Fault flap = read("node=2,link=0.1,every=2s");
  CHECK(flap.period == 2 * unit::s);
  CHECK(flap.begin == Seconds());
  CHECK(!flap.end);
  CHECK(read("node=1,lost=5min@10min").restart == 300 * unit::s);
}

TEST_CASE("what is written reads back as the same fault") {
  for (const char* text :
       {"gpu=3,power=0.25@120s..300s", "node=1,fan=0.3@60s", "inlet=+10@5min..20min",
        "inlet=-4.5 K", "node=2,link=0.1,every=2s", "node=1,lost=5min,every=30min@10min",
        "gpu=5,heat_path=2", "node=0,host=3"}) {
    const Fault fault = read(text);
    CHECK(read(to_text(fault)) == fault);
  }
}

TEST_CASE("what cannot be read is refused with a way out") {
  CHECK(refusal("gpu=3").find("does not say what fails") != std::string::npos);
  CHECK(refusal("powr=0.5").find("power") != std::string::npos);
  CHECK(refusal("gpu=three,power=0.5").find("\"three\" is no number for gpu") != std::string::npos);
  CHECK(refusal("power").find("has no value") != std::string::npos);
  CHECK(refusal("power=0.5,fan=0.5").find("of one kind") != std::string::npos);
  CHECK(!refusal("power=0.5@noon").empty());
  CHECK(!refusal("").empty());
}

}  // namespace
}  // namespace triplepoint::spec
