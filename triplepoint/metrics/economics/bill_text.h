// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/metrics/economics/bill.h"

namespace triplepoint::metrics {

/// "412 days, 8,630 MWh, 3.1 M USD, 3,200 t CO2", and what failures take.
std::string bill_text(const Bill&, const BillRates&);
Json bill_json(const Bill&, const BillRates&);

}  // namespace triplepoint::metrics
