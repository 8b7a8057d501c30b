// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/names.h"

namespace triplepoint::spec {

static_assert(enum_names<OpClass>.size() == op_class_count);
static_assert(enum_names<Collective>.size() == collective_count);

std::string_view name_of(OpClass value) {
  return enum_name(value);
}
std::string_view name_of(Collective value) {
  return enum_name(value);
}
std::string_view name_of(GroupKind value) {
  return enum_name(value);
}
std::string_view name_of(Precision value) {
  return enum_name(value);
}
std::string_view name_of(Task value) {
  return enum_name(value);
}
std::string_view name_of(DiagnosisCode value) {
  return enum_name(value);
}

GpuLoad& GpuLoad::operator+=(const GpuLoad& other) {
  duration += other.duration;
  for (std::size_t i = 0; i < flops.size(); ++i)
    flops[i] += other.flops[i];
  fp8_flops += other.fp8_flops;
  fp4_flops += other.fp4_flops;
  hbm_bytes += other.hbm_bytes;
  scale_up_bytes += other.scale_up_bytes;
  scale_out_bytes += other.scale_out_bytes;
  computing += other.computing;
  communicating += other.communicating;
  communicating_scale_out += other.communicating_scale_out;
  waiting += other.waiting;
  return *this;
}

GpuLoad operator*(double times, GpuLoad load) {
  for (Flops& flops : load.flops)
    flops *= times;
  load.fp8_flops *= times;
  load.fp4_flops *= times;
  load.hbm_bytes *= times;
  load.scale_up_bytes *= times;
  load.scale_out_bytes *= times;
  for (Seconds* time : {&load.duration, &load.computing, &load.communicating,
                        &load.communicating_scale_out, &load.waiting})
    *time *= times;
  return load;
}

std::optional<FlopsPerSecond> Gpu::peak(Precision precision) const {
  switch (precision) {
    case Precision::bf16:
      return peak_bf16;
    case Precision::fp16:
      return peak_fp16;
    case Precision::fp8:
      return peak_fp8;
    case Precision::mxfp8:  // scaled in hardware, or not at all
      return kernels.gemm_mxfp8_share ? peak_fp8 : std::nullopt;
    case Precision::nvfp4:
      return peak_fp4;
    case Precision::fp32:
      return peak_fp32;
  }
  return std::nullopt;
}

}  // namespace triplepoint::spec
