// SPDX-License-Identifier: Apache-2.0
#include "trainer/math/math.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/base/random.h"
#include "triplepoint/base/units.h"

using namespace triplepoint;
using namespace triplepoint::trainer;
using doctest::Approx;

namespace {

using Floats = std::vector<float>;

Floats noise(int64_t n, uint64_t stream) {
  Floats x;
  for (int64_t i = 0; i < n; ++i)
    x.push_back(static_cast<float>(random_normal({7, stream}, static_cast<uint64_t>(i))));
  return x;
}

double inner(const Floats& x, const Floats& y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i)
    sum += as_real(x[i]) * as_real(y[i]);
  return sum;
}

/// Slope of `loss` along x[i], by a symmetric difference.
double slope(Floats& x, size_t i, const std::function<double()>& loss) {
  const float kept = x[i], step = 1e-2F;
  x[i] = kept + step;
  const double up = loss();
  x[i] = kept - step;
  const double down = loss();
  x[i] = kept;
  return (up - down) / (2.0 * as_real(step));
}

std::unique_ptr<Math> plain() {
  return make_cpu_math();
}

}  // namespace

TEST_CASE("the gradient of a norm is its slope") {
  const auto math = plain();
  for (const bool centered : {false, true}) {
    const Norm norm{.rows = 3, .width = 37, .centered = centered};
    Floats x = noise(111, 1), gain = noise(37, 2), bias = noise(37, 3), y(111), statistics(6);
    const Floats dy = noise(111, 4);
    const auto loss = [&] {
      math->norm(norm, x.data(), gain.data(), bias.data(), y.data(), statistics.data());
      return inner(y, dy);
    };
    loss();
    Floats dx(111, 0), gain_gradient(37, 0), bias_gradient(37, 0);
    math->norm_backward(norm, x.data(), gain.data(), statistics.data(), dy.data(), dx.data(),
                        gain_gradient.data(), bias_gradient.data());
    for (const size_t i : {size_t{0}, size_t{17}, size_t{36}}) {
      CHECK(as_real(dx[i + 37]) == Approx(slope(x, i + 37, loss)).epsilon(2e-3));
      CHECK(as_real(gain_gradient[i]) == Approx(slope(gain, i, loss)).epsilon(2e-3));
      CHECK(as_real(bias_gradient[i]) == Approx(slope(bias, i, loss)).epsilon(2e-3));
    }
  }
}

TEST_CASE("the gradient of an activation is its slope") {
  const auto math = plain();
  for (const auto kind : {Nonlinearity::gelu, Nonlinearity::swiglu, Nonlinearity::squared_relu}) {
    const int64_t width = 19, gates = kind == Nonlinearity::swiglu ? 2 : 1;
    Floats z = noise(2 * gates * width, 5), bias = noise(gates * width, 6), y(38);
    const Floats dy = noise(2 * width, 7);
    const auto loss = [&] {
      math->activation(kind, 2, width, z.data(), bias.data(), y.data());
      return inner(y, dy);
    };
    Floats dz = z;
    math->activation_backward(kind, 2, width, dz.data(), bias.data(), dy.data());
    for (size_t i = 0; i < z.size(); i += 5)
      CHECK(as_real(dz[i]) == Approx(slope(z, i, loss)).epsilon(5e-3));
  }
}

TEST_CASE("rotary embedding backward undoes forward") {
  const auto math = plain();
  Floats table;
  for (int64_t t = 0; t < 5; ++t)
    for (int64_t j = 0; j < 8; ++j)
      table.push_back(static_cast<float>(j < 4 ? std::cos(t * (j + 1)) : std::sin(t * (j - 3))));
  const Floats x = noise(240, 8);
  Floats y = x;
  Rotary shape{.tokens = 10, .length = 5, .heads = 2, .head_dim = 8, .stride = 24};
  shape.table = table.data();
  math->rotary(shape, y.data());
  CHECK(inner(y, y) == Approx(inner(x, x)));
  CHECK(y != x);
  shape.backward = true;
  math->rotary(shape, y.data());
  for (size_t i = 0; i < x.size(); ++i)
    CHECK(y[i] == Approx(x[i]).epsilon(1e-5));
}

TEST_CASE("attention is causal and its gradient is its slope") {
  const auto math = plain();
  const Attention shape{.sequences = 2, .length = 70, .heads = 4, .groups = 2, .head_dim = 6};
  const int64_t tokens = 140, width = shape.width();
  Floats qkv = noise(tokens * width, 9), out(as_size(tokens * 24)), sums(as_size(tokens * 4));
  const Floats dy = noise(tokens * 24, 10);
  const auto loss = [&] {
    math->attention(shape, qkv.data(), out.data(), sums.data());
    return inner(out, dy);
  };
  loss();
  const Floats before = out;
  Floats gradient = qkv;
  math->attention_backward(shape, gradient.data(), out.data(), dy.data(), sums.data());
  for (size_t i = 3; i < qkv.size(); i += 487)
    CHECK(as_real(gradient[i]) == Approx(slope(qkv, i, loss)).epsilon(0.01).scale(0.1));
  qkv[as_size(69 * width)] += 1;  // a query of the first sequence's last token
  loss();
  for (size_t i = 0; i < 1656; ++i)
    CHECK(out[i] == before[i]);
}

TEST_CASE("the loss of a vocabulary in two parts is that of the whole") {
  const auto math = plain();
  const int64_t rows = 3, words = 11;
  const Floats logits = noise(rows * words, 11);
  const std::vector<int32_t> targets{2, 10, 7};
  Floats maximum(3, -1e30F), target(3, 0), sum(3, 0);
  std::vector<Floats> parts;
  std::vector<LogitShape> shapes{{rows, 6, 6, 0}, {rows, 8, 5, 6}};  // the second with padding
  for (const LogitShape& shape : shapes) {
    Floats part(as_size(rows * shape.width), 99.0F);
    for (int64_t i = 0; i < rows; ++i)
      math->copy(shape.valid, logits.data() + i * words + shape.first,
                 part.data() + i * shape.width);
    Floats m(3);
    math->row_maximum(shape, part.data(), m.data());
    for (size_t i = 0; i < 3; ++i)
      maximum[i] = std::max(maximum[i], m[i]);
    parts.push_back(part);
  }
  for (size_t p = 0; p < 2; ++p) {
    Floats t(3), s(3);
    math->loss_sums(shapes[p], targets.data(), maximum.data(), parts[p].data(), t.data(), s.data());
    math->add(3, t.data(), target.data());
    math->add(3, s.data(), sum.data());
  }
  for (size_t i = 0; i < 3; ++i) {
    double whole = 0;
    for (size_t j = 0; j < 11; ++j)
      whole += std::exp(as_real(logits[i * 11 + j]));
    const double loss = std::log(whole) - as_real(logits[i * 11 + as_size(targets[i])]);
    CHECK(std::log(as_real(sum[i])) - as_real(target[i]) == Approx(loss).epsilon(1e-5));
  }
  double total = 0;
  for (size_t p = 0; p < 2; ++p) {
    math->loss_backward(shapes[p], targets.data(), sum.data(), 1.0F, parts[p].data());
    for (const float x : parts[p])
      total += as_real(x);
  }
  CHECK(total == Approx(0).scale(1).epsilon(1e-5));
}

TEST_CASE("AdamW's first step is the rate, against the gradient's sign, and decay") {
  const auto math = plain();
  Floats g{3.0F, -0.5F}, m(2, 0), v(2, 0), w{1.0F, 1.0F};
  AdamW step{.rate = 0.1F, .decay = 0.5F};
  step.correction1 = 1 - step.beta1;
  step.correction2 = 1 - step.beta2;
  math->adamw(step, 2, g.data(), m.data(), v.data(), w.data());
  CHECK(w[0] == Approx(1 - 0.1 - 0.05));
  CHECK(w[1] == Approx(1 + 0.1 - 0.05));
}
