// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/learn/priors.h"

#include <cmath>

namespace triplepoint::learn {

double Distance::likeness(const Knobs& a, const Knobs& b) const {
  double sum = 0, product = 1;
  const auto apart = [&](double z) {
    sum += z;
    product *= 1 + z;
  };
  for (std::size_t k = 0; k < sizes.size(); ++k)
    apart(sizes[k] * std::abs(a.sizes[k] - b.sizes[k]));
  for (std::size_t k = 0; k < words.size(); ++k)
    if (a.words[k] != b.words[k]) apart(words[k]);
  return product * std::exp(-sum);
}

}  // namespace triplepoint::learn
