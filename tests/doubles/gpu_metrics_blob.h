// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

/// amdgpu's gpu_metrics as C lays it out, field by field in the kernel's order: an independent
/// check of the offsets our reader knows. Source: Linux, kgd_pp_interface.h.
namespace triplepoint::doubles::blob {

struct Head {
  uint16_t size;
  uint8_t format, content;
};

struct V13 {
  Head head;
  uint16_t edge, hotspot, mem, vrgfx, vrsoc, vrmem;
  uint16_t gfx_activity, umc_activity, mm_activity;
  uint16_t average_socket_power;
  uint64_t energy_accumulator;
  uint64_t system_clock_counter;
  uint16_t average_clocks[7];
  uint16_t current_gfxclk, current_socclk, current_uclk, current_vclk0, current_dclk0,
      current_vclk1, current_dclk1;
  uint32_t throttle_status;
  uint16_t fan_speed, pcie_link_width, pcie_link_speed, padding;
  uint32_t gfx_activity_acc, mem_activity_acc;
  uint16_t temperature_hbm[4];
  uint64_t firmware_timestamp;                               // from 1.2 on
  uint16_t voltage_soc, voltage_gfx, voltage_mem, padding1;  // from 1.3 on
  uint64_t indep_throttle_status;
};
static_assert(sizeof(V13) == 120);

struct V14 {
  Head head;
  uint16_t hotspot, mem, vrsoc;
  uint16_t curr_socket_power;
  uint16_t gfx_activity, umc_activity;
  uint16_t vcn_activity[4];
  uint64_t energy_accumulator;
  uint64_t system_clock_counter;
  uint32_t throttle_status, gfxclk_lock_status;
  uint16_t pcie_link_width, pcie_link_speed, xgmi_link_width, xgmi_link_speed;
  uint32_t gfx_activity_acc, mem_activity_acc;
  uint64_t pcie_bandwidth_acc, pcie_bandwidth_inst, pcie_l0, pcie_replay, pcie_rollover;
  uint64_t xgmi_read[8], xgmi_write[8];
  uint64_t firmware_timestamp;
  uint16_t current_gfxclk[8], current_socclk[4], current_vclk0[4], current_dclk0[4], current_uclk;
  uint16_t padding;
};
static_assert(sizeof(V14) == 288);

struct V15 {
  Head head;
  uint16_t hotspot, mem, vrsoc;
  uint16_t curr_socket_power;
  uint16_t gfx_activity, umc_activity;
  uint16_t vcn_activity[4], jpeg_activity[32];
  uint64_t energy_accumulator;
  uint64_t system_clock_counter;
  uint32_t throttle_status, gfxclk_lock_status;
  uint16_t pcie_link_width, pcie_link_speed, xgmi_link_width, xgmi_link_speed;
  uint32_t gfx_activity_acc, mem_activity_acc;
  uint64_t pcie_bandwidth_acc, pcie_bandwidth_inst, pcie_l0, pcie_replay, pcie_rollover;
  uint32_t pcie_nak_sent, pcie_nak_rcvd;
  uint64_t xgmi_read[8], xgmi_write[8];
  uint64_t firmware_timestamp;
  uint16_t current_gfxclk[8], current_socclk[4], current_vclk0[4], current_dclk0[4], current_uclk;
  uint16_t padding;
};
static_assert(sizeof(V15) == 360);

struct Partition {
  uint32_t gfx_busy_inst[8];
  uint16_t jpeg_busy[32], vcn_busy[4];
  uint64_t gfx_busy_acc[8];
};
struct Partition11 {
  uint32_t gfx_busy_inst[8];
  uint16_t jpeg_busy[32], vcn_busy[4];
  uint64_t gfx_busy_acc[8], gfx_below_host_limit_acc[8];
};

struct V16 {
  Head head;
  uint16_t hotspot, mem, vrsoc;
  uint16_t curr_socket_power;
  uint16_t gfx_activity, umc_activity;
  uint64_t energy_accumulator;
  uint64_t system_clock_counter;
  uint32_t accumulation_counter, prochot, ppt, socket_thm, vr_thm, hbm_thm;
  uint32_t gfxclk_lock_status;
  uint16_t pcie_link_width, pcie_link_speed, xgmi_link_width, xgmi_link_speed;
  uint32_t gfx_activity_acc, mem_activity_acc;
  uint64_t pcie_bandwidth_acc, pcie_bandwidth_inst, pcie_l0, pcie_replay, pcie_rollover;
  uint32_t pcie_nak_sent, pcie_nak_rcvd;
  uint64_t xgmi_read[8], xgmi_write[8];
  uint64_t firmware_timestamp;
  uint16_t current_gfxclk[8], current_socclk[4], current_vclk0[4], current_dclk0[4], current_uclk;
  uint16_t num_partition;
  Partition partitions[8];
  uint32_t pcie_other_end_recovery;
};
static_assert(sizeof(V16) == 1664);

struct Partition12 {
  uint32_t gfx_busy_inst[8];
  uint16_t jpeg_busy[40], vcn_busy[4];
  uint64_t gfx_busy_acc[8], below_limit_ppt_acc[8], below_limit_thm_acc[8], low_utilization_acc[8],
      below_limit_total_acc[8];
};

/// Version 1.8 differs from 1.7 in what it says of partitions.
template <class Partition>
struct Late {
  Head head;
  uint16_t hotspot, mem, vrsoc;
  uint16_t curr_socket_power;
  uint16_t gfx_activity, umc_activity;
  uint64_t mem_max_bandwidth;
  uint64_t energy_accumulator;
  uint64_t system_clock_counter;
  uint32_t accumulation_counter, prochot, ppt, socket_thm, vr_thm, hbm_thm;
  uint32_t gfxclk_lock_status;
  uint16_t pcie_link_width, pcie_link_speed, xgmi_link_width, xgmi_link_speed;
  uint32_t gfx_activity_acc, mem_activity_acc;
  uint64_t pcie_bandwidth_acc, pcie_bandwidth_inst, pcie_l0, pcie_replay, pcie_rollover;
  uint32_t pcie_nak_sent, pcie_nak_rcvd;
  uint64_t xgmi_read[8], xgmi_write[8];
  uint16_t xgmi_link_status[8], padding;
  uint64_t firmware_timestamp;
  uint16_t current_gfxclk[8], current_socclk[4], current_vclk0[4], current_dclk0[4], current_uclk;
  uint16_t num_partition;
  Partition partitions[8];
  uint32_t pcie_other_end_recovery;
};
using V17 = Late<Partition11>;
using V18 = Late<Partition12>;
static_assert(sizeof(V17) == 2208 && sizeof(V18) == 3872);

/// All fields "not available", as the driver fills a table before it writes what it has.
template <class Version>
Version unavailable(uint8_t content, uint16_t size = sizeof(Version)) {
  Version blob;
  std::memset(static_cast<void*>(&blob), 0xff, sizeof blob);
  blob.head = {size, 1, content};
  return blob;
}

std::string bytes_of(const auto& blob) {
  return {reinterpret_cast<const char*>(&blob), blob.head.size};
}

}  // namespace triplepoint::doubles::blob
