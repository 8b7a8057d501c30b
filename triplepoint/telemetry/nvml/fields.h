// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/run/run.h"

#include "triplepoint/telemetry/nvml/api.h"

namespace triplepoint::telemetry::nvml {

/// One number that nvmlDeviceGetFieldValues may know.
struct Field {
  uint32_t id = 0, scope = 0;
  friend bool operator==(const Field&, const Field&) = default;
};

/// One way to read a signal: by these fields, their values added.
struct Source {
  std::vector<Field> fields;
  double unit = 1;  // of one count, in the unit of the signal
  run::Scope scope = run::Scope::gpu;
  run::ReadingKind kind = run::ReadingKind::instant;
  std::optional<Seconds> window = {};
  std::string name;  // "nvml field 186"
};

/// A signal, and the ways to read it, best first.
struct SignalSources {
  std::string signal;
  std::vector<Source> sources;
  std::string what;     // for people, if none works: "instant power"; "": nothing is said
  int from_driver = 0;  // series of drivers that have it
  bool rare = false;    // polled slowly
};

/// Which numbers NVML gives the residency counters of thermal slowdown and power brake: drivers of
/// the 575 series (and the first of 580) say 251-253, later ones 269-271, and each set means power
/// smoothing to the other. Source: NVML change log, "Changes between v575 and v580".
enum class Numbering : uint8_t { none, from_251, from_269 };

/// By the answers to the six fields in question, in the order of `numbering_fields`: the three that
/// answer with 64-bit numbers, as residency in ns does and settings of power smoothing do not.
Numbering numbering_of(const std::vector<FieldValue>& answers, int driver_major);
std::vector<Field> numbering_fields();

/// All we want of a GPU. `architecture` as nvmlDeviceGetArchitecture counts (10: Blackwell),
/// `links` the numbers of its NVLinks that are up.
std::vector<SignalSources> wanted_fields(unsigned architecture, const std::vector<unsigned>& links,
                                         Numbering numbering);

/// The number in an answer, whatever its type; nothing if it is an error or a sentinel.
std::optional<double> number_in(const FieldValue&);
/// The same of a counter, with its width in bits.
struct RawCount {
  uint64_t value = 0;
  int bits = 64;
};
std::optional<RawCount> count_in(const FieldValue&);

}  // namespace triplepoint::telemetry::nvml
