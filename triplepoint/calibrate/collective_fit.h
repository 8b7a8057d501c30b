// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/cluster.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/calibrate/collective_rows.h"
#include "triplepoint/calibrate/kernel_fit.h"

namespace triplepoint::calibrate {

/// What the collectives of one domain say of its links, and how well the numbers do on sizes that
/// they have not seen (5 folds over message sizes), and on these rows with the numbers of the other
/// fitted clusters.
struct LinkFit {
  std::string cluster, software;
  int64_t rows = 0;
  std::vector<FittedNumber> numbers;  // of [cluster.scale_up]
  Residuals large, between, small;    // above 16 MB, the rest, below 1 MB
  Residuals held_out_large, held_out_between, held_out_small;
  Residuals others_large, others_between, others_small;
  spec::ScaleUp links;  // the library's, with the fitted numbers in their places
};

/// Fits efficiencies, latencies, half size and local copy of a cluster's scale-up links.
///
///   minimize  mean |ln(predicted / measured)|
///
/// Rows used: of the cluster's GPU, inside one domain, 16-bit or wider (switches do not reduce
/// 8-bit integers, and nobody trains on them), of the newest library version in the table. The
/// switch's reduction is fitted where a row of more than four ranks used it, and stays as it is
/// elsewhere. Deterministic. Errors: fewer than 40 such rows.
Result<LinkFit> fit_collectives(const std::vector<CollectiveRow>&, const spec::Library&,
                                const std::string& cluster_name);

/// The cluster's file with the fitted numbers in their places, their origin, and the record in
/// [fit.scale_up]. All other lines stay as they are.
Result<std::string> links_toml(const LinkFit&, const spec::Library&, const std::string& tables);

}  // namespace triplepoint::calibrate
