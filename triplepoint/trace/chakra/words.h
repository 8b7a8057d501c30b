// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace triplepoint::trace::chakra::word {

// Attributes that the PyTorch converter and ASTRA-sim know.
inline constexpr const char* is_cpu_op = "is_cpu_op";
inline constexpr const char* comm_type = "comm_type";
inline constexpr const char* comm_size = "comm_size";
inline constexpr const char* group_name = "pg_name";
inline constexpr const char* num_ops = "num_ops";
inline constexpr const char* tensor_size = "tensor_size";
inline constexpr const char* thread = "tid";
inline constexpr const char* device_stream = "stream";
inline constexpr const char* rank = "rank";

// Ours: what they have no place for.
inline constexpr const char* begin = "begin_ns";
inline constexpr const char* duration = "duration_ns";
inline constexpr const char* kind = "span_kind";
inline constexpr const char* queue = "span_stream";
inline constexpr const char* op_class = "op_class";
inline constexpr const char* collective = "collective";
inline constexpr const char* group = "group_kind";
inline constexpr const char* stage = "stage";
inline constexpr const char* microbatch = "microbatch";
inline constexpr const char* layer = "layer";
inline constexpr const char* wait = "wait_s";
inline constexpr const char* bytes = "bytes";
inline constexpr const char* flops = "flops";
inline constexpr const char* lane = "lane";
inline constexpr const char* communicator = "communicator";
inline constexpr const char* sequence = "sequence";
inline constexpr const char* correlation = "correlation";
inline constexpr const char* blocks = "blocks";
inline constexpr const char* threads_per_block = "threads_per_block";
inline constexpr const char* occupancy = "occupancy";
inline constexpr const char* in_elements = "in_elements";
inline constexpr const char* out_elements = "out_elements";

// In the header.
inline constexpr const char* epoch = "epoch_unix_ns";
inline constexpr const char* lane_streams = "lane_streams";
inline constexpr const char* lane_numbers = "lane_numbers";
inline constexpr const char* lane_names = "lane_names";
inline constexpr const char* communicator_names = "communicator_names";
inline constexpr const char* communicator_sizes = "communicator_sizes";
inline constexpr const char* communicator_ranks = "communicator_ranks";

}  // namespace triplepoint::trace::chakra::word
