// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/perf/launch_shape.h"

#include <doctest/doctest.h>

#include "triplepoint/spec/load.h"

namespace triplepoint::perf {
namespace {

using doctest::Approx;
using spec::OpClass;

spec::Gpu gpu_named(const char* name) {
  const auto gpu = spec::load_gpu(spec::default_library(), name);
  REQUIRE(gpu.has_value());
  return *gpu;
}

LaunchShape shape_of(const spec::Gpu& gpu, const spec::Op& op) {
  const auto shape = launch_shape(gpu, op);
  REQUIRE(shape.has_value());
  return *shape;
}

spec::Op product(int64_t m, int64_t n, int64_t k, int64_t count = 1) {
  spec::Op op;
  op.op_class = OpClass::gemm;
  op.gemm = {m, n, k, count};
  return op;
}

TEST_CASE("a product of many whole tiles has a block for each of the largest tile") {
  const spec::Gpu gpu = gpu_named("h200");
  const LaunchShape shape = shape_of(gpu, product(8192, 8192, 8192));
  const double area = static_cast<double>(gpu.kernels.tile_m * gpu.kernels.tile_n);
  CHECK(shape.blocks == Approx(8192.0 * 8192 / area));
  CHECK(shape.warps == Approx(shape.blocks * static_cast<double>(gpu.kernels.gemm_threads) / 32));
  CHECK(shape.occupancy == Approx(static_cast<double>(gpu.kernels.gemm_threads) / 2048));
}

TEST_CASE("twice the rows of large products are twice the blocks, however they are launched") {
  const spec::Gpu gpu = gpu_named("h200");
  const LaunchShape one = shape_of(gpu, product(8192, 8192, 4096));
  CHECK(shape_of(gpu, product(16384, 8192, 4096)).blocks == Approx(2 * one.blocks));
  spec::Op two = product(8192, 8192, 4096, 2);
  CHECK(shape_of(gpu, two).blocks == Approx(2 * one.blocks));
  two.kernels = 2;
  CHECK(shape_of(gpu, two).blocks == Approx(2 * one.blocks));
  CHECK(shape_of(gpu, two).launches == 2);
}

TEST_CASE("a product that does not fill the chip leaves warps of it empty") {
  const spec::Gpu gpu = gpu_named("h200");
  const LaunchShape few = shape_of(gpu, product(128, 128, 128));
  CHECK(few.blocks < static_cast<double>(*gpu.compute_units));
  CHECK(few.occupancy < shape_of(gpu, product(8192, 8192, 8192)).occupancy);
}

TEST_CASE("attention has blocks of query rows for each head, and of key rows backward") {
  const spec::Gpu gpu = gpu_named("h200");
  spec::Op op;
  op.op_class = OpClass::attention;
  op.attention = {.batch = 2,
                  .heads = 12,
                  .query_groups = 12,
                  .query_length = 2 * gpu.kernels.attention_tile,
                  .key_length = 4 * gpu.kernels.attention_tile + 1,
                  .head_dim = 128};
  CHECK(shape_of(gpu, op).blocks == 2 * 12 * 2);
  op.backward = true;
  CHECK(shape_of(gpu, op).blocks == 2 * 12 * 5);
}

TEST_CASE("kernels that stream fill the chip, and a collective holds its channels") {
  const spec::Gpu gpu = gpu_named("h200");
  spec::Op op;
  op.op_class = OpClass::norm;
  op.hbm_bytes = 1 * unit::GB;
  op.kernels = 2;
  const LaunchShape stream = shape_of(gpu, op);
  CHECK(stream.blocks == Approx(1 * unit::GB / gpu.kernels.stream_block).epsilon(1e-4));
  CHECK(stream.launches == 2);
  CHECK(stream.occupancy == Approx(1));
  op.op_class = OpClass::communication;
  op.kernels = 1;
  op.collective = spec::Collective::all_reduce;
  CHECK(shape_of(gpu, op).blocks == static_cast<double>(gpu.kernels.collective_blocks));
  for (const auto messages : {spec::Collective::send_recv, spec::Collective::all_to_all}) {
    op.collective = messages;
    CHECK(shape_of(gpu, op).blocks == static_cast<double>(gpu.kernels.point_to_point_blocks));
  }
}

TEST_CASE("Kineto's estimate of a SendRecv kernel on A100 is met: 16 blocks of 640 threads, 5 %") {
  const spec::Gpu gpu = gpu_named("a100-80gb");
  spec::Op op;
  op.op_class = OpClass::communication;
  op.collective = spec::Collective::send_recv;
  CHECK(shape_of(gpu, op).warps == 16 * 20);
  CHECK(shape_of(gpu, op).occupancy == Approx(0.05).epsilon(0.1));
}

TEST_CASE("warps of AMD are twice as wide, and cores of a CPU have none") {
  const spec::Op op = product(8192, 8192, 8192);
  const spec::Gpu mi250 = gpu_named("mi250");
  const LaunchShape shape = shape_of(mi250, op);
  CHECK(shape.warps == Approx(shape.blocks * static_cast<double>(mi250.kernels.gemm_threads) / 64));
  CHECK(!launch_shape(gpu_named("cpu-core"), op));
}

}  // namespace
}  // namespace triplepoint::perf
