// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/calibrate/training_row.h"
#include "triplepoint/calibrate/training_rules.h"

namespace triplepoint::calibrate {

/// Fills in the model of a row whose name is not in the library from the sizes that the row prints.
///
///   parameters = l (12 h^2 + 13 h) + V h       a GPT's; gives l where only h and N are printed
///   heads = h / 128                            where they are not printed
///
/// Nothing where hidden size, or both layers and parameters, are missing.
std::optional<spec::Model> gpt_of_shape(const TrainingRow&);

/// What a row prints of a model that has a name: its layers, and all that goes with another width.
void reshape(spec::Model&, const TrainingRow&);

/// Deals out layers over stages and chunks: as many chunks as `wanted`, if layers can be dealt out
/// so, else the next fewer. Megatron counts embedding and head (and the further loss of a model
/// that predicts several tokens) as a layer each where layers do not divide by the chunks.
/// Returns what was assumed.
std::vector<std::string> lay_out_chunks(spec::Job&, std::optional<int64_t> wanted);

/// nanotron deals out blocks front to back: stage s ends with the first block at which the matrices
/// so far reach the (s + 1)-th part of all, the head's included. Our stages hold a layer at least,
/// but the last, which has the head.
/// Source: nanotron, src/nanotron/models/base.py (build_model) and the models' block costs.
void balance_stages(spec::Job&);

/// A layout for a row that says nothing of it: TP within a node, then
///  - if batch and accumulation say how many ranks share a replica: context, and stages as far as
///    memory demands (who tunes a long sequence in few microbatches splits it rather than the
///    layers);
///  - else stages: the smallest that fits in memory with selective, else full recompute, and leaves
///    no more replicas than sequences.
/// Returns what was assumed. The plan's recompute is left open.
std::string guess_model_parallel(spec::Job&, const TrainingRow&, const FrameworkRule&);

/// Experts of a row that does not say how they are split: over as few ranks as make it fit.
std::string guess_expert_parallel(spec::Job&);

}  // namespace triplepoint::calibrate
