// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/simplex.h"

#include <algorithm>
#include <cmath>

namespace triplepoint::calibrate {
namespace {

using Point = std::vector<double>;
using Function = std::function<double(const Point&)>;

struct Vertex {
  Point at;
  double value;
};

Point between(const Point& a, const Point& b, double t) {  // a + t (b - a)
  Point p(a.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    p[i] = a[i] + t * (b[i] - a[i]);
  return p;
}

Point centre_of_all_but_worst(const std::vector<Vertex>& simplex) {
  Point centre(simplex[0].at.size(), 0);
  for (std::size_t v = 0; v + 1 < simplex.size(); ++v)
    for (std::size_t i = 0; i < centre.size(); ++i)
      centre[i] += simplex[v].at[i] / static_cast<double>(simplex.size() - 1);
  return centre;
}

void shrink(std::vector<Vertex>& simplex, const Function& f) {
  for (std::size_t v = 1; v < simplex.size(); ++v) {
    simplex[v].at = between(simplex[0].at, simplex[v].at, 0.5);
    simplex[v].value = f(simplex[v].at);
  }
}

void step(std::vector<Vertex>& simplex, const Function& f) {
  std::sort(simplex.begin(), simplex.end(),
            [](const Vertex& a, const Vertex& b) { return a.value < b.value; });
  Vertex& worst = simplex.back();
  const Point centre = centre_of_all_but_worst(simplex);
  const auto try_at = [&](double t) {
    const Point p = between(centre, worst.at, t);
    return Vertex{p, f(p)};
  };
  const Vertex reflected = try_at(-1);
  if (reflected.value < simplex.front().value) {
    const Vertex expanded = try_at(-2);
    worst = expanded.value < reflected.value ? expanded : reflected;
    return;
  }
  if (reflected.value < simplex[simplex.size() - 2].value) {
    worst = reflected;
    return;
  }
  const Vertex contracted = try_at(reflected.value < worst.value ? -0.5 : 0.5);
  if (contracted.value < std::min(worst.value, reflected.value))
    worst = contracted;
  else
    shrink(simplex, f);
}

Vertex descend(Point start, double size, const Function& f, int evaluations) {
  std::vector<Vertex> simplex{{start, f(start)}};
  for (std::size_t i = 0; i < start.size(); ++i) {
    Point corner = start;
    corner[i] += corner[i] > 0.5 ? -size : size;
    simplex.push_back({corner, f(corner)});
  }
  for (int used = 0; used < evaluations; used += 2)
    step(simplex, f);
  return *std::min_element(simplex.begin(), simplex.end(),
                           [](const Vertex& a, const Vertex& b) { return a.value < b.value; });
}

}  // namespace

Minimum minimize(const std::vector<FitParameter>& parameters,
                 const std::function<double(const std::vector<double>&)>& f, int evaluations) {
  const auto real = [&](const Point& unit) {
    Point p(unit.size());
    for (std::size_t i = 0; i < p.size(); ++i)
      p[i] = parameters[i].low +
             std::clamp(unit[i], 0.0, 1.0) * (parameters[i].high - parameters[i].low);
    return p;
  };
  const Function inside = [&](const Point& unit) {
    double outside = 0;
    for (const double u : unit)
      outside += std::max(0.0, u - 1) + std::max(0.0, -u);
    return f(real(unit)) + outside;
  };
  Point start;
  for (const FitParameter& p : parameters)
    start.push_back((p.start - p.low) / (p.high - p.low));
  Vertex best{start, inside(start)};
  for (const double size : {0.3, 0.15, 0.3, 0.08}) {
    const Vertex found = descend(best.at, size, inside, evaluations / 4);
    if (found.value < best.value) best = found;
  }
  return {real(best.at), best.value};
}

}  // namespace triplepoint::calibrate
