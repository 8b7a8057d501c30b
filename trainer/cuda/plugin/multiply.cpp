// SPDX-License-Identifier: Apache-2.0
#include "trainer/cuda/plugin/multiply.h"

#include <algorithm>
#include <array>
#include <span>

#include <fmt/format.h>

namespace triplepoint::trainer::cuda {
namespace {

constexpr size_t workspace_bytes = size_t{32} << 20;  // as NVIDIA advises for Hopper
constexpr int most_choices = 8;
constexpr int most_told = 3;  // shapes without an algorithm

int type_of(const Array& array) {
  return array.bf16 != 0 ? type_bf16 : type_fp32;
}

/// Largest power of two up to 256 that divides the address.
uint32_t alignment_of(const Array& array) {
  const auto address = reinterpret_cast<uintptr_t>(array.data);
  return static_cast<uint32_t>(std::min<uintptr_t>(address & (~address + 1), 256));
}

}  // namespace

Multiplier::Multiplier(Gpu& gpu) : gpu_(gpu) {
  gpu_.libraries().check_blas(gpu_.libraries().blas.make(&blas_), "start");
  gpu_.libraries().check(gpu_.driver().allocate(&workspace_, workspace_bytes),
                         "allocate a workspace");
}

Multiplier::~Multiplier() {
  const BlasLibrary& blas = gpu_.libraries().blas;
  for (const auto& [key, plan] : plans_) {
    blas.drop_matmul(plan.matmul);
    for (const Layout layout : {plan.a, plan.b, plan.c})
      blas.drop_layout(layout);
  }
  gpu_.driver().release(workspace_);
  blas.drop(blas_);
}

Layout Multiplier::layout(const Array& array, int64_t rows, int64_t columns, int64_t stride) const {
  Layout made = nullptr;
  gpu_.libraries().check_blas(
      gpu_.libraries().blas.make_layout(&made, type_of(array), static_cast<uint64_t>(columns),
                                        static_cast<uint64_t>(rows), stride),
      "describe a matrix");
  return made;
}

void Multiplier::repeat(Layout layout, int64_t count, int64_t stride) const {
  const auto copies = static_cast<int32_t>(count);
  const BlasLibrary& blas = gpu_.libraries().blas;
  gpu_.libraries().check_blas(blas.set_layout(layout, batch_count, &copies, sizeof copies),
                              "describe matrices");
  gpu_.libraries().check_blas(blas.set_layout(layout, batch_stride, &stride, sizeof stride),
                              "describe matrices");
}

void Multiplier::choose(const Operands& x, Plan& plan) {
  const Libraries& libraries = gpu_.libraries();
  const BlasLibrary& blas = libraries.blas;
  Preference preference = nullptr;
  libraries.check_blas(blas.make_preference(&preference), "describe a preference");
  const auto prefer = [&](int what, const auto& value) {
    libraries.check_blas(blas.set_preference(preference, what, &value, sizeof value),
                         "take a preference");
  };
  prefer(most_workspace, workspace_bytes);
  // Operands have changed places.
  prefer(alignment_a, alignment_of(x.b));
  prefer(alignment_b, alignment_of(x.a));
  prefer(alignment_c, alignment_of(x.c));
  prefer(alignment_d, alignment_of(x.c));
  std::array<MatmulChoice, most_choices> choices{};
  int found = 0;
  const int status = blas.choose(blas_, plan.matmul, plan.b, plan.a, plan.c, plan.c, preference,
                                 most_choices, choices.data(), &found);
  blas.drop_preference(preference);
  plan.refused = status != 0 ? blas.status_text(status) : "no algorithm";
  if (status != 0) return;
  for (const MatmulChoice& choice : std::span(choices).first(static_cast<size_t>(found)))
    if (choice.state == 0 && choice.workspace <= workspace_bytes) plan.choices.push_back(choice);
}

Multiplier::Plan Multiplier::make_plan(const Gemm& g, const Operands& x, const Batch& batch) {
  const Libraries& libraries = gpu_.libraries();
  Plan plan;
  const bool fast = gpu_.settings().tensor_cores_for_fp32 && x.a.bf16 == 0;
  libraries.check_blas(
      libraries.blas.make_matmul(&plan.matmul, fast ? compute_tf32 : compute_fp32, type_fp32),
      "describe a product");
  const auto transpose = [&](int which) {
    const int32_t how = transposed;
    libraries.check_blas(libraries.blas.set_matmul(plan.matmul, which, &how, sizeof how),
                         "describe a product");
  };
  if (g.b_transposed) transpose(matmul_transposes_a);
  if (g.a_transposed) transpose(matmul_transposes_b);
  plan.a = g.a_transposed ? layout(x.a, g.k, g.m, g.a_stride) : layout(x.a, g.m, g.k, g.a_stride);
  plan.b = g.b_transposed ? layout(x.b, g.n, g.k, g.b_stride) : layout(x.b, g.k, g.n, g.b_stride);
  plan.c = layout(x.c, g.m, g.n, g.c_stride);
  if (batch.count > 1) {
    repeat(plan.a, batch.count, batch.a);
    repeat(plan.b, batch.count, batch.b);
    repeat(plan.c, batch.count, batch.c);
  }
  choose(x, plan);
  return plan;
}

Multiplier::Plan& Multiplier::plan_for(const Gemm& g, const Operands& x, const Batch& batch) {
  const int64_t types = x.a.bf16 + 2 * x.b.bf16 + 4 * x.c.bf16;
  const int64_t ways = (g.a_transposed ? 1 : 0) + (g.b_transposed ? 2 : 0);
  const Key key{g.m,
                g.n,
                g.k,
                g.a_stride,
                g.b_stride,
                g.c_stride,
                types * 4 + ways,
                alignment_of(x.a),
                alignment_of(x.b),
                alignment_of(x.c),
                batch.count,
                batch.a,
                batch.b,
                batch.c};
  const auto found = plans_.find(key);
  if (found != plans_.end()) return found->second;
  return plans_.emplace(key, make_plan(g, x, batch)).first->second;
}

int Multiplier::multiply_by(const Plan& plan, const Gemm& g, const Operands& x) const {
  return gpu_.libraries().blas.multiply(blas_, plan.matmul, &g.alpha, x.b.data, plan.b, x.a.data,
                                        plan.a, &g.beta, x.c.data, plan.c, x.c.data, plan.c,
                                        &plan.choices.front().algorithm, workspace_,
                                        workspace_bytes, gpu_.stream());
}

/// False where no algorithm is left. One that has worked and fails is an error of the GPU.
bool Multiplier::multiply_by_library(Plan& plan, const Gemm& g, const Operands& x) const {
  while (!plan.choices.empty()) {
    const int status = multiply_by(plan, g, x);
    if (status == 0 && !plan.works) plan.choices.resize(1);
    if (status == 0) return plan.works = true;
    if (plan.works) gpu_.libraries().check_blas(status, "multiply");
    plan.refused = gpu_.libraries().blas.status_text(status);
    plan.choices.erase(plan.choices.begin());
  }
  return false;
}

void Multiplier::multiply_plainly(const Gemm& g, const Operands& x, const Batch& batch) const {
  gpu_.each(gpu_.functions().PlainProduct,
            PlainProduct{g, x.a, x.b, x.c, batch.a, batch.b, batch.c}, g.m * batch.count, g.n);
}

void Multiplier::tell(const Plan& plan, const Gemm& g, const Operands& x, const Batch& batch) {
  const bool last = ++told_ == most_told;
  const auto type = [](const Array& array) { return array.bf16 != 0 ? "bf16" : "fp32"; };
  gpu_.remark(fmt::format(
      "cuBLASLt ({}) has no algorithm that works for {} product(s) of {} x {} x {} ({}{} x {}{} -> "
      "{}): {}. A plain kernel multiplies instead, correctly and slowly; another release of "
      "cuBLAS may have one (--device-libraries){}",
      gpu_.libraries().blas_file, batch.count, g.m, g.n, g.k, type(x.a),
      g.a_transposed ? " transposed" : "", type(x.b), g.b_transposed ? " transposed" : "",
      type(x.c), plan.refused, last ? ". More such shapes are not told" : ""));
}

void Multiplier::multiply(const Gemm& g, const Array& a, const Array& b, const Array& c,
                          const Batch& batch) {
  const Operands operands{a, b, c};
  if (g.k == 0) return multiply_plainly(g, operands, batch);  // beta C: no matrices to describe
  Plan& plan = plan_for(g, operands, batch);
  if (multiply_by_library(plan, g, operands)) return;
  if (!plan.told && told_ < most_told) tell(plan, g, operands, batch);
  plan.told = true;
  multiply_plainly(g, operands, batch);
}

}  // namespace triplepoint::trainer::cuda
