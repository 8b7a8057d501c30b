// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/workload/record_rows.h"

#include <cmath>

#include <doctest/doctest.h>

#include "triplepoint/workload/jobs_testing.h"
#include "triplepoint/workload/memory.h"
#include "triplepoint/workload/model_flops.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::workload {
namespace {

using doctest::Approx;
using spec::RecordLayout;

/// GPT3-175B on sequences of 2048 tokens.
spec::Job job_of(std::vector<int64_t> lengths, std::vector<double> shares, RecordLayout layout) {
  spec::Job job = test::gpt3_on_32({.tensor = 8, .pipeline = 4});
  job.records = spec::Records{"test", std::move(lengths), std::move(shares)};
  job.plan.record_layout = layout;
  return job;
}

double flops_of(const spec::Job& job, bool (*keep)(const spec::Op&)) {
  return test::flops(test::ops_of_layers(job), keep);
}

TEST_CASE("records that fill their sequence are a job without records, in every layout") {
  spec::Job plain = test::gpt3_on_32({.tensor = 8, .pipeline = 4});
  for (const RecordLayout layout :
       {RecordLayout::padded, RecordLayout::longest, RecordLayout::packed}) {
    const spec::Job job = job_of({2048}, {1}, layout);
    CHECK(tokens_per_step(job) == tokens_per_step(plain));
    CHECK(records_per_step(job) == plain.plan.global_batch_size);
    CHECK(count_step_flops(job).model / unit::FLOP ==
          Approx(count_step_flops(plain).model / unit::FLOP));
    CHECK(flops_of(job, test::is_gemm) == Approx(flops_of(plain, test::is_gemm)));
    CHECK(flops_of(job, test::is_attention) == Approx(flops_of(plain, test::is_attention)));
    CHECK(estimate_memory(job).stages[0].total() == estimate_memory(plain).stages[0].total());
  }
}

TEST_CASE("padding to the sequence length computes all of it, and counts the records alone") {
  const spec::Job plain = test::gpt3_on_32({.tensor = 8, .pipeline = 4});
  const spec::Job job = job_of({256, 768}, {1, 1}, RecordLayout::padded);
  CHECK(flops_of(job, test::is_gemm) == flops_of(plain, test::is_gemm));
  CHECK(flops_of(job, test::is_attention) == flops_of(plain, test::is_attention));
  CHECK(tokens_per_step(job) == tokens_per_step(plain) / 4);
  const StepFlops flops = count_step_flops(job);
  CHECK(flops.hardware == count_step_flops(plain).hardware);
  CHECK(flops.model / flops.hardware < 0.25);  // the core of short records is smaller still
}

TEST_CASE("rows are as long as the longest of a microbatch: P of a maximum is P to the power b") {
  for (const int64_t micro : {1, 2, 8}) {
    CAPTURE(micro);
    spec::Job job = job_of({256, 1024}, {3, 1}, RecordLayout::longest);
    job.plan.micro_batch_size = micro;
    const double all_short = std::pow(0.75, as_real(micro));
    const RowShape row = row_shape(job);
    CHECK(real(row.length) == Approx(256 * all_short + 1024 * (1 - all_short)).epsilon(16.0 / 256));
    CHECK(row.length % 16 == 0);
    CHECK(row.squares == Approx(256. * 256 * all_short + 1024. * 1024 * (1 - all_short)));
    CHECK(row.largest == 1024);
  }
}

TEST_CASE("memory holds the longest microbatch, not the mean one") {
  const spec::Job mixed = job_of({256, 2048}, {99, 1}, RecordLayout::longest);
  const spec::Job plain = test::gpt3_on_32({.tensor = 8, .pipeline = 4});
  CHECK(row_shape(mixed).length < 300);
  CHECK(estimate_memory(mixed).stages[0].total() == estimate_memory(plain).stages[0].total());
}

TEST_CASE("rows divide as sequence and context parallelism need, and end at the sequence length") {
  spec::Job job = job_of({700, 5000}, {1, 0}, RecordLayout::longest);
  job.plan.sequence_parallel = true;
  job.plan.tensor_parallel_size = 3;
  CHECK(row_shape(job).length == 720);
  job.plan.context_parallel_size = 16;
  CHECK(row_shape(job).length == 768);
  job.records->shares = {0, 1};
  CHECK(row_shape(job).length == 2048);
}

TEST_CASE("packed rows are full, and their core is that of as many short records") {
  const spec::Job plain = test::gpt3_on_32({.tensor = 8, .pipeline = 4});
  const spec::Job job = job_of({512}, {1}, RecordLayout::packed);
  CHECK(row_content(job).records == Approx(4));
  CHECK(tokens_per_step(job) == tokens_per_step(plain));
  CHECK(records_per_step(job) == 4 * plain.plan.global_batch_size);
  CHECK(flops_of(job, test::is_gemm) == flops_of(plain, test::is_gemm));
  CHECK(flops_of(job, test::is_attention) * 4 == Approx(flops_of(plain, test::is_attention)));
}

TEST_CASE("a record that fits no other leaves its row half empty") {
  const RowContent content = row_content(job_of({1300}, {1}, RecordLayout::packed));
  CHECK(content.records == Approx(1));
  CHECK(content.tokens == Approx(1300));
  // 1300 and 700 fit together: first fit, longest first, finds the pairs.
  CHECK(row_content(job_of({1300, 700}, {1, 1}, RecordLayout::packed)).tokens ==
        Approx(2000).epsilon(0.01));
}

TEST_CASE("packing and padding to the longest count the same tokens of a record") {
  const std::vector<int64_t> lengths = {128, 384, 640};
  const std::vector<double> shares = {2, 5, 3};
  const RowContent packed = row_content(job_of(lengths, shares, RecordLayout::packed));
  const RowContent padded = row_content(job_of(lengths, shares, RecordLayout::longest));
  CHECK(packed.tokens / packed.records == Approx(padded.tokens).epsilon(1e-3));
  CHECK(packed.tokens > 0.95 * 2048);
}

}  // namespace
}  // namespace triplepoint::workload
