// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace_report/operator_work.h"

#include <algorithm>
#include <array>
#include <numeric>

#include <nlohmann/json.hpp>

#include "triplepoint/base/json.h"

#include "triplepoint/trace/kernel_kind.h"

namespace triplepoint::trace_report {
namespace {

using Arguments = std::vector<OperatorArgument>;
using Shape = std::vector<int64_t>;
using Kind = OperatorWork::Kind;

bool is_shape(const Json& list) {
  return list.is_array() && std::ranges::all_of(list, [](const Json& one) {
           return one.is_number_integer() && one >= 0 && one < (int64_t{1} << 40);
         });
}

/// "[2, 1]" as numbers; empty if it is no such list.
Shape numbers_in(const std::string& text) {
  const auto list = parse_json(text, "");
  return list && is_shape(*list) ? list->get<Shape>() : Shape();
}

double elements(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), 1.0,
                         [](double all, int64_t size) { return all * as_real(size); });
}

/// Of tensors; a number takes none.
double bytes_of(const OperatorArgument& argument) {
  double all = 0;
  for (const Shape& shape : argument.shapes)
    if (!shape.empty()) all += elements(shape) * trace::element_size(argument.type);
  return all;
}

const Shape* tensor(const Arguments& arguments, size_t i) {
  if (i >= arguments.size() || arguments[i].shapes.size() != 1) return nullptr;
  const Shape& shape = arguments[i].shapes.front();
  return shape.empty() ? nullptr : &shape;
}

std::optional<spec::Precision> precision_of(const std::string& type) {
  const auto has = [&](const char* part) { return contains(type, part); };
  if (has("BFloat16")) return spec::Precision::bf16;
  if (has("Half")) return spec::Precision::fp16;
  if (has("Float8")) return spec::Precision::fp8;
  if (type == "float") return spec::Precision::fp32;
  return std::nullopt;
}

double inputs(const Arguments& arguments) {
  return sum_of(arguments, [](const OperatorArgument& argument) { return bytes_of(argument); });
}

OperatorWork made(Kind kind, double flops, double bytes, const OperatorArgument& like) {
  return {kind, flops * unit::FLOP, bytes * unit::B, precision_of(like.type)};
}

/// Of the two last dimensions of arguments `first` and the next.
std::optional<OperatorWork> product(const Arguments& arguments, size_t first) {
  const Shape *a = tensor(arguments, first), *b = tensor(arguments, first + 1);
  if (a == nullptr || b == nullptr || a->size() < 2 || b->size() < 2) return std::nullopt;
  const double rows = elements(*a) / std::max(1.0, as_real(a->back()));
  const auto columns = as_real(b->back());
  if ((*b)[b->size() - 2] != a->back()) return std::nullopt;
  const double output = rows * columns;
  return made(Kind::matrix, 2 * output * as_real(a->back()),
              inputs(arguments) + output * trace::element_size(arguments[first].type),
              arguments[first]);
}

/// Input, weight [out, in of a group, kernel ...]; where the call states them, by place.
struct ConvolutionPlaces {
  const char* name;
  size_t stride, padding, dilation;
};
constexpr std::array convolutions = {
    ConvolutionPlaces{"aten::miopen_convolution", 4, 3, 5},
    ConvolutionPlaces{"aten::miopen_depthwise_convolution", 4, 3, 5},
    ConvolutionPlaces{"aten::cudnn_convolution", 3, 2, 4},
    ConvolutionPlaces{"aten::convolution", 3, 4, 5}};

std::optional<OperatorWork> convolution(const Arguments& arguments,
                                        const ConvolutionPlaces& places) {
  const Shape *input = tensor(arguments, 0), *weight = tensor(arguments, 1);
  if (input == nullptr || weight == nullptr || input->size() != weight->size() ||
      input->size() < 3 || arguments.size() <= places.dilation)
    return std::nullopt;
  const Shape stride = numbers_in(arguments[places.stride].value),
              padding = numbers_in(arguments[places.padding].value),
              dilation = numbers_in(arguments[places.dilation].value);
  const size_t space = input->size() - 2;
  if (stride.size() != space || padding.size() != space || dilation.size() != space)
    return std::nullopt;
  double output = as_real((*input)[0]) * as_real((*weight)[0]);
  for (size_t d = 0; d < space; ++d) {
    const int64_t reach = dilation[d] * ((*weight)[d + 2] - 1) + 1;
    const int64_t size = (*input)[d + 2] + 2 * padding[d] - reach;
    if (stride[d] < 1 || size < 0) return std::nullopt;
    output *= as_real(size / stride[d] + 1);
  }
  const double each = elements(*weight) / std::max(1.0, as_real((*weight)[0]));
  return made(Kind::convolution, 2 * output * each,
              inputs(arguments) + output * trace::element_size(arguments[0].type), arguments[0]);
}

/// Gradient of the output, input, weight, ..., which gradients are wanted.
std::optional<OperatorWork> convolution_backward(const Arguments& arguments) {
  const Shape *output = tensor(arguments, 0), *weight = tensor(arguments, 2);
  if (output == nullptr || weight == nullptr || tensor(arguments, 1) == nullptr)
    return std::nullopt;
  const double forward =
      2 * elements(*output) * elements(*weight) / std::max(1.0, as_real((*weight)[0]));
  // "[True, True, False]": of input, weight, bias.
  const std::string& mask = arguments.back().value;
  const auto wants = [&](size_t at) { return mask.compare(at, 4, "True") == 0; };
  const size_t second = mask.find(", ");
  const bool is_mask = mask.starts_with('[') && second != std::string::npos;
  const int gradients = is_mask ? wants(1) + wants(second + 2) : 2;
  return made(Kind::convolution, gradients * forward,
              inputs(arguments) + bytes_of(arguments[1]) + bytes_of(arguments[2]), arguments[0]);
}

struct AttentionPlaces {
  const char* name;
  size_t query, causal;
  double times;  // of the forward pass
};
constexpr std::array attentions = {
    AttentionPlaces{"aten::_scaled_dot_product_flash_attention", 0, 4, 1},
    AttentionPlaces{"aten::_scaled_dot_product_efficient_attention", 0, 6, 1},
    AttentionPlaces{"aten::_scaled_dot_product_cudnn_attention", 0, 6, 1},
    AttentionPlaces{"aten::_scaled_dot_product_flash_attention_backward", 1, 11, 2.5},
    AttentionPlaces{"aten::_scaled_dot_product_efficient_attention_backward", 1, 11, 2.5},
    AttentionPlaces{"aten::_scaled_dot_product_cudnn_attention_backward", 1, 14, 2.5}};

/// Query, key and value as [batch, heads, sequence, head].
std::optional<OperatorWork> attention(const Arguments& arguments, const AttentionPlaces& places) {
  const Shape *q = tensor(arguments, places.query), *k = tensor(arguments, places.query + 1),
              *v = tensor(arguments, places.query + 2);
  if (q == nullptr || k == nullptr || v == nullptr || q->size() != 4 || k->size() != 4 ||
      v->size() != 4)
    return std::nullopt;
  const auto at = [](const Shape& shape, size_t i) { return as_real(shape[i]); };
  const double queries = at(*q, 2), keys = at(*k, 2);
  double pairs = at(*q, 0) * at(*q, 1) * queries * keys;
  const bool causal = arguments.size() > places.causal && arguments[places.causal].value == "True";
  if (causal && queries > 0) pairs *= keys >= queries ? 1 - queries / (2 * keys) : 0.5;
  const OperatorArgument& query = arguments[places.query];
  const double output =
      at(*q, 0) * at(*q, 1) * queries * at(*v, 3) * trace::element_size(query.type);
  double bytes = output;
  for (size_t i = 0; i < 3; ++i)
    bytes += bytes_of(arguments[places.query + i]);
  return made(Kind::attention, places.times * 2 * pairs * (at(*q, 3) + at(*v, 3)),
              places.times * bytes, query);
}

/// Operators that move memory, by what they write beside what they read.
enum class Writes : uint8_t { nothing_more, largest, only_first };
constexpr std::string_view reducing = " copy_ sum mean max all linalg_vector_norm ";
constexpr std::string_view filling = " fill_ zero_ ";
constexpr std::string_view elementwise =
    " add sub mul div neg pow sqrt rsqrt exp log sin cos tanh sigmoid silu gelu relu clamp "
    "clamp_min where eq ne lt le gt ge abs maximum minimum addcmul addcdiv lerp native_dropout "
    "threshold_backward silu_backward gelu_backward tanh_backward sigmoid_backward "
    "native_dropout_backward cat _softmax _log_softmax _softmax_backward_data "
    "_log_softmax_backward_data native_layer_norm native_layer_norm_backward native_group_norm "
    "native_batch_norm native_batch_norm_backward miopen_batch_norm miopen_batch_norm_backward "
    "cudnn_batch_norm cudnn_batch_norm_backward _fused_rms_norm _fused_rms_norm_backward ";

std::optional<Writes> writes_of(std::string_view name) {
  if (!name.starts_with("aten::")) return std::nullopt;
  name.remove_prefix(6);
  const auto is_in = [&](std::string_view names) {
    return contains(names, fmt::format(" {} ", name));
  };
  if (is_in(reducing)) return Writes::nothing_more;
  if (is_in(filling)) return Writes::only_first;
  if (name.ends_with('_')) name.remove_suffix(1);  // in place
  return is_in(elementwise) ? std::optional(Writes::largest) : std::nullopt;
}

std::optional<OperatorWork> moving(const Arguments& arguments, Writes writes) {
  double largest = 0;
  const OperatorArgument* like = nullptr;
  for (const OperatorArgument& argument : arguments)
    if (const double size = bytes_of(argument); size > largest) largest = size, like = &argument;
  if (like == nullptr) return std::nullopt;
  double bytes = writes == Writes::only_first ? bytes_of(arguments.front()) : inputs(arguments);
  if (writes == Writes::largest) bytes += largest;
  return made(Kind::memory, 0, bytes, *like);
}

}  // namespace

std::string_view name_of(Kind kind) {
  constexpr std::array<std::string_view, 4> names = {"matrix", "attention", "convolution",
                                                     "memory"};
  return names[as_size(kind)];
}

std::vector<OperatorArgument> arguments_of(const trace::OperatorCall& call) {
  const auto dims = parse_json(call.dims, "dims"), types = parse_json(call.types, "types"),
             values = parse_json(call.values, "values");
  Arguments arguments;
  if (!dims || !dims->is_array()) return arguments;
  for (size_t i = 0; i < dims->size(); ++i) {
    OperatorArgument& argument = arguments.emplace_back();
    const auto text = [&](const Result<Json>& list) {
      const bool has = list && list->is_array() && i < list->size() && (*list)[i].is_string();
      return has ? (*list)[i].get<std::string>() : std::string();
    };
    argument.type = text(types);
    argument.value = text(values);
    const Json& shape = (*dims)[i];
    if (is_shape(shape)) {
      argument.shapes.push_back(shape.get<Shape>());
    } else if (shape.is_array()) {
      for (const Json& one : shape)
        if (is_shape(one)) argument.shapes.push_back(one.get<Shape>());
    }
    // Types of a list stand as a list, too.
    if (types && types->is_array() && i < types->size() && (*types)[i].is_array() &&
        !(*types)[i].empty() && (*types)[i][0].is_string())
      argument.type = (*types)[i][0].get<std::string>();
  }
  return arguments;
}

std::optional<OperatorWork> work_of(std::string_view name, const Arguments& arguments) {
  if (arguments.empty()) return std::nullopt;
  if (name == "aten::mm" || name == "aten::bmm" || name == "aten::_scaled_mm")
    return product(arguments, 0);
  if (name == "aten::addmm" || name == "aten::baddbmm") return product(arguments, 1);
  if (name == "aten::convolution_backward") return convolution_backward(arguments);
  for (const ConvolutionPlaces& places : convolutions)
    if (name == places.name) return convolution(arguments, places);
  for (const AttentionPlaces& places : attentions)
    if (name == places.name) return attention(arguments, places);
  if (const auto writes = writes_of(name)) return moving(arguments, *writes);
  return std::nullopt;
}

}  // namespace triplepoint::trace_report
