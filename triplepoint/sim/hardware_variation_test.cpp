// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/hardware_variation.h"

#include <cmath>

#include <doctest/doctest.h>

namespace triplepoint::sim {
namespace {

spec::Job cluster_of(int64_t nodes, double spread, uint64_t seed) {
  spec::Job job;
  job.cluster.num_nodes = nodes;
  job.cluster.host.speed_spread = spread;
  job.cluster.gpu.variability.dynamic_energy = spread;
  job.environment.seed = seed;
  return job;
}

TEST_CASE("drawn spreads have the asked mean and deviation") {
  const HardwareVariation hardware = draw_hardware_variation(cluster_of(512, 0.05, 7));
  double sum = 0, squares = 0;
  for (const power::BoardFactors& board : hardware.boards) {
    sum += board.dynamic_energy;
    squares += (board.dynamic_energy - 1) * (board.dynamic_energy - 1);
  }
  const double n = as_real(hardware.boards.size());
  CHECK(sum / n == doctest::Approx(1).epsilon(1e-6));
  CHECK(std::sqrt(squares / n) == doctest::Approx(0.05).epsilon(0.02));
}

TEST_CASE("a seed deals the same boards every time, another seed deals them otherwise") {
  const HardwareVariation one = draw_hardware_variation(cluster_of(4, 0.1, 1));
  const HardwareVariation again = draw_hardware_variation(cluster_of(4, 0.1, 1));
  const HardwareVariation other = draw_hardware_variation(cluster_of(4, 0.1, 2));
  CHECK(one.host_factor == again.host_factor);
  bool differs = false;
  for (size_t i = 0; i < one.boards.size(); ++i)
    differs |= one.boards[i].dynamic_energy != other.boards[i].dynamic_energy;
  CHECK(differs);
}

TEST_CASE("without spread every board and node is its type") {
  const HardwareVariation hardware = draw_hardware_variation(cluster_of(2, 0, 1));
  for (const double factor : hardware.host_factor)
    CHECK(factor == 1);
  for (const power::BoardFactors& board : hardware.boards)
    CHECK(board.dynamic_energy == 1);
}

}  // namespace
}  // namespace triplepoint::sim
