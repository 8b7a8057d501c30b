// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/spec/job.h"

namespace triplepoint::answers {

/// The layout as the literature writes it: "TP8-PP4", "TP8-FSDP", "EP8-TP1-PP4", "TP4-PP4-CP2".
std::string configuration_label(const spec::Job& job);

/// What was switched on beyond the layout: "base", "overlap", "recompute", "recompute+overlap",
/// "lora", "placed" (devices or nodes in their own order), "uneven" (layers per stage).
std::string variant_label(const spec::Job& job);

/// A reason for which a clock is lowered, in words: "the power cap" of software_power_cap.
std::string throttle_reason_text(const std::string& reason);

/// "Throughput" of "throughput".
std::string capitalized(std::string text);

/// "gpt3-175b on 32 x H200"
std::string group_label(const spec::Job& job);
/// " (lora)"; empty for pretraining.
std::string task_label(const spec::Job& job);

/// "; 4 x 100 Gb/s a node": the NICs that join nodes; empty where there is one.
std::string network_label(const spec::Job& job);

/// "gpt3-175b-TP8-PP4-mbs1": what a job without a name is called.
std::string default_name(const spec::Job& job);

}  // namespace triplepoint::answers
