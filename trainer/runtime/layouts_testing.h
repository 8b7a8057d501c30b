// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "triplepoint/spec/job.h"

/// Layouts in which every pair of features occurs.
namespace triplepoint::trainer::test {

/// One value per feature, as an index.
inline constexpr size_t feature_count = 12;
using Choice = std::array<int, feature_count>;

/// The job of a choice: what it trains is decided by the features `model`, `tied` and `lora`.
spec::Job job_of(const Choice&);
/// "gpt tp2 sp pp4-1f1b dp2 zero3 ..."
std::string describe(const Choice&);
/// The same training on one rank.
spec::Job alone(const Choice&);
/// Choices that train the same have the same key.
int training_of(const Choice&);

/// A covering array, found greedily with a fixed seed: every pair of values that a valid job of at
/// most `largest` ranks can have occurs in one of them.
std::vector<Choice> pairwise_layouts(int64_t largest);

/// `count` further layouts of exactly this size.
std::vector<Choice> layouts_of_size(int64_t ranks, size_t count);

}  // namespace triplepoint::trainer::test
