// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace triplepoint::trainer {

std::vector<int64_t> expert_places(const spec::MixtureOfExperts& moe, int64_t tokens) {
  if (!moe.capacity_factor) return {};
  const auto total = static_cast<int64_t>(
      std::ceil(static_cast<double>(tokens * moe.router_topk) * *moe.capacity_factor));
  std::vector<int64_t> places;
  for (int64_t e = 0; e < moe.num_experts; ++e)
    places.push_back(total * (e + 1) / moe.num_experts - total * e / moe.num_experts);
  return places;
}

void plan_dispatch(const spec::MixtureOfExperts& moe, int64_t tokens, const int32_t* chosen,
                   Dispatch& dispatch) {
  const auto experts = static_cast<size_t>(moe.num_experts);
  const std::vector<int64_t> places = expert_places(moe, tokens);
  dispatch.rows_of.assign(experts, 0);
  dispatch.place.assign(static_cast<size_t>(tokens * moe.router_topk), -1);
  // First each copy's place among its expert's, then where the expert's rows begin.
  for (size_t i = 0; i < dispatch.place.size(); ++i) {
    const auto expert = static_cast<size_t>(chosen[i]);
    if (!places.empty() && dispatch.rows_of[expert] >= places[expert]) continue;
    dispatch.place[i] = static_cast<int32_t>(dispatch.rows_of[expert]++);
  }
  if (moe.pad_to_capacity && !places.empty()) dispatch.rows_of = places;
  std::vector<int64_t> first(experts, 0);
  std::exclusive_scan(dispatch.rows_of.begin(), dispatch.rows_of.end(), first.begin(), int64_t{0});
  dispatch.row_of.assign(static_cast<size_t>(first.back() + dispatch.rows_of.back()), -1);
  for (size_t i = 0; i < dispatch.place.size(); ++i) {
    if (dispatch.place[i] < 0) continue;
    dispatch.place[i] += static_cast<int32_t>(first[static_cast<size_t>(chosen[i])]);
    dispatch.row_of[static_cast<size_t>(dispatch.place[i])] =
        static_cast<int32_t>(static_cast<int64_t>(i) / moe.router_topk);
  }
}

void sort_by_expert(const std::vector<int64_t>& counts, const std::vector<int64_t>& first_row,
                    int64_t total, ExpertRowsHere& here) {
  const size_t sources = first_row.size(), experts = counts.size() / sources;
  here.rows_of.assign(experts, 0);
  here.received_row.clear();
  here.sorted_row.assign(static_cast<size_t>(total), -1);
  for (size_t expert = 0; expert < experts; ++expert)
    for (size_t source = 0; source < sources; ++source) {
      const int64_t* of_source = counts.data() + source * experts;
      const int64_t first = std::accumulate(of_source, of_source + expert, first_row[source]);
      for (int64_t i = 0; i < of_source[expert]; ++i) {
        here.sorted_row[static_cast<size_t>(first + i)] =
            static_cast<int32_t>(here.received_row.size());
        here.received_row.push_back(static_cast<int32_t>(first + i));
      }
      here.rows_of[expert] += of_source[expert];
    }
  here.in_order =
      here.sorted() == total && std::is_sorted(here.received_row.begin(), here.received_row.end());
}

}  // namespace triplepoint::trainer
