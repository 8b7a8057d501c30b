// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/fault.h"
#include "triplepoint/spec/load.h"

namespace {

using namespace triplepoint;

/// What reads as a job can be examined, written, and read again as the same job.
void simulate_job(const spec::Library& library, std::string_view text) {
  const Result<spec::Job> job = spec::parse_job(library, text, "fuzz");
  if (!job) return;
  spec::diagnose(*job);
  const Result<spec::Job> again = spec::parse_job(library, spec::write_job(*job), "again");
  TPT_ENSURE(again.has_value());
  TPT_ENSURE(*again == *job);
}

}  // namespace

extern "C" int fuzz_toml(const std::uint8_t* data, std::size_t size) {
  static const triplepoint::spec::Library library = triplepoint::spec::default_library();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  simulate_job(library, text);
  (void)triplepoint::spec::parse_study(library, text, "fuzz");
  if (const auto tree = triplepoint::spec::parse_toml(text, "fuzz"))
    (void)triplepoint::spec::collect_provenance(*tree, "fuzz");
  return 0;
}

/// What reads as a fault is written as one that reads the same.
extern "C" int fuzz_fault_text(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto fault = triplepoint::spec::parse_fault(text);
  if (!fault) return 0;
  const std::string written = triplepoint::spec::to_text(*fault);
  const auto again = triplepoint::spec::parse_fault(written);
  TPT_ENSURE(again.has_value());
  TPT_ENSURE(triplepoint::spec::to_text(*again) == written);
  return 0;
}
