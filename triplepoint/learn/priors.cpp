// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/learn/priors.h"

#include <cmath>

namespace triplepoint::learn {

double Distance::between(const Knobs& a, const Knobs& b) const {
  double sum = 0;
  for (std::size_t k = 0; k < sizes.size(); ++k)
    sum += sizes[k] * std::abs(a.sizes[k] - b.sizes[k]);
  for (std::size_t k = 0; k < words.size(); ++k)
    if (a.words[k] != b.words[k]) sum += words[k];
  return sum;
}

}  // namespace triplepoint::learn
