// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/job_name.h"

#include <fmt/format.h>

#include "triplepoint/report/findings/labels.h"

namespace triplepoint::report {

std::string default_name(const spec::Job& job) {
  const std::string variant = variant_label(job);
  return fmt::format("{}-{}{}-mbs{}", job.model.name, configuration_label(job),
                     variant == "base" ? "" : "-" + variant, job.plan.micro_batch_size);
}

}  // namespace triplepoint::report
