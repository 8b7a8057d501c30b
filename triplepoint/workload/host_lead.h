// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/units.h"

#include "triplepoint/workload/op_makers.h"

namespace triplepoint::workload {

/// What one pass of one part costs the host to launch, and the GPU to run.
struct PassTime {
  Seconds host, gpu;
};

struct PassTimes {
  PassTime layer_forward, layer_backward, head_forward, head_backward;
};

/// The host's time as the stack says it; the GPU's by a roofline of the chip's coefficients.
PassTimes make_pass_times(const LayerContext&);

/// Two clocks: what the host has launched, and what the GPU has run. A tensor that a transfer reads
/// stays with the allocator until the GPU has passed the transfer, so the distance of the two
/// decides how many of them there are. It grows where a pass takes the GPU longer than the host.
class HostLead {
 public:
  void launch(PassTime pass);
  void wait_until(Seconds passed);          // the host waits for the GPU
  void stall_gpu() { is_stalled_ = true; }  // the GPU waits for another one
  void synchronize();                       // both: the host reads what the GPU has made

  Seconds end() const;  // of what was launched last
  bool has_completed(Seconds end) const { return end <= host_; }

 private:
  Seconds host_, gpu_;
  bool is_stalled_ = false;
};

}  // namespace triplepoint::workload
