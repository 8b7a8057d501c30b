// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "triplepoint/base/result.h"

#include "trainer/comm/communicator.h"
#include "trainer/comm/mpi_session.h"
#include "trainer/runtime/train.h"

namespace triplepoint::trainer {

enum class TransportKind { automatic, mpi, threads };

/// The command line of triplepoint-train.
struct Options {
  std::string job;
  TrainSettings train;
  TransportKind transport = TransportKind::automatic;
  Carrier carrier = Carrier::automatic;
  std::optional<bool> shaping;  // of links; absent: where the cluster is emulated (shared_cores)
  int64_t ranks = 0;            // threads; 0: as many as the job has
  Algorithm collectives = Algorithm::automatic;
  double timeout_seconds = 60;
  std::string memory_limit;  // "" what is free, "0" none, or a size
  bool json = false;
};

/// What main does with a command line: go on, or end with this code (help has been printed).
struct Parsed {
  Options options;
  int exit_code = -1;  // -1: go on
  std::string text;    // to print before ending
};
Parsed parse_options(int argc, const char* const* argv);

}  // namespace triplepoint::trainer
