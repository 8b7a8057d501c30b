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

}  // namespace triplepoint::perf
