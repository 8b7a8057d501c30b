// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "triplepoint/run/run.h"

namespace triplepoint::run {

/// What views call the device at this place of the run: "3", the number that its node gives it, or
/// "3 of node 1 (gpu-b07)" where there are several. Of simulated runs the place among all.
std::string device_number(const Run&, std::size_t device);
/// The same of every device of a recording; of simulated runs nothing, for their places do.
std::vector<std::string> device_numbers(const Run&);
/// One of these; its place where they are of a simulated run.
std::string device_number(const std::vector<std::string>& numbers, std::size_t device);

}  // namespace triplepoint::run
