// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "triplepoint/base/result.h"

#include "triplepoint/search/search_parts.h"
#include "triplepoint/search/space.h"

namespace {

using namespace triplepoint;

search::Space some_space() {
  const spec::Library library = spec::default_library();
  spec::Job job;
  job.model = *spec::load_model(library, "llama3-8b");
  job.cluster = *spec::load_cluster(library, "hgx-h200");
  job.cluster.num_nodes = 1;
  job.stack = *spec::load_stack(library, "megatron-core");
  job.plan.global_batch_size = 16;
  return {job, search::Reach::launchable, {}};
}

}  // namespace

/// What one part of a search left for who merges is written as it was read.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const search::Space space = some_space();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto part = search::parse_part(space, text);
  if (!part) return 0;
  const std::string written = search::write_part(*part);
  const auto again = search::parse_part(space, written);
  TPT_ENSURE(again.has_value());
  TPT_ENSURE(search::write_part(*again) == written);
  return 0;
}
