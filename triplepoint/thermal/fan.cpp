// SPDX-License-Identifier: Apache-2.0
// A proportional law on temperature rises: flow goes with what the hottest device has over the
// inlet, relative to what it may have. Fans move at their slew rate, within floor and full flow.
#include <algorithm>
#include <cmath>

#include "triplepoint/thermal/chassis.h"

namespace triplepoint::thermal {

double next_flow_share(const spec::Chassis& chassis, double present, Celsius hottest,
                       Seconds duration) {
  // No flow brings a device to a target below the inlet.
  if (chassis.fan_target <= chassis.inlet)
    return std::min(1.0, present + chassis.fan_slew_per_s * (duration / unit::s));
  const double over = (hottest - chassis.inlet) / (chassis.fan_target - chassis.inlet);
  // A device's rise falls with flow^-exponent at most, so this asks for too little rather than too
  // much and closes in on the target without swinging. Where flow does not matter, nothing is asked
  // for.
  const double wanted = over > 0 ? present * over : 0;
  const double reach = chassis.fan_slew_per_s * (duration / unit::s);
  const double moved = std::clamp(wanted, present - reach, present + reach);
  return std::clamp(moved, std::min(chassis.fan_floor, 1.0), 1.0);
}

}  // namespace triplepoint::thermal
