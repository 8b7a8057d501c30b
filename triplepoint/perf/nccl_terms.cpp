// SPDX-License-Identifier: Apache-2.0
// What nccl-tests and NCCL's logs call things.
#include <algorithm>

#include "triplepoint/perf/collective_time.h"

namespace triplepoint::perf {

double bus_bandwidth_factor(spec::Collective collective, int64_t ranks) {
  const auto n = static_cast<double>(std::max<int64_t>(1, ranks));
  switch (collective) {
    case spec::Collective::all_reduce:
      return 2 * (n - 1) / n;
    case spec::Collective::all_gather:
    case spec::Collective::reduce_scatter:
    case spec::Collective::all_to_all:
      return (n - 1) / n;
    case spec::Collective::broadcast:
    case spec::Collective::send_recv:
      return 1;
  }
  return 1;
}

std::string_view name_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::ring:
      return "ring";
    case Algorithm::tree:
      return "tree";
    case Algorithm::hierarchical:
      return "hierarchical";
    case Algorithm::nvls:
      return "nvls";
    case Algorithm::pairwise:
      return "pairwise";
    case Algorithm::direct:
      return "direct";
  }
  return "unknown";
}

}  // namespace triplepoint::perf
