// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/chakra/node.h"

#include <algorithm>

namespace triplepoint::trace::chakra {

std::optional<spec::Collective> collective_of(CollectiveType type) {
  switch (type) {
    case CollectiveType::all_reduce:
      return spec::Collective::all_reduce;
    case CollectiveType::all_gather:
      return spec::Collective::all_gather;
    case CollectiveType::broadcast:
      return spec::Collective::broadcast;
    case CollectiveType::all_to_all:
      return spec::Collective::all_to_all;
    case CollectiveType::reduce_scatter:
    case CollectiveType::reduce_scatter_block:
      return spec::Collective::reduce_scatter;
    case CollectiveType::reduce:
    case CollectiveType::gather:
    case CollectiveType::scatter:
    case CollectiveType::barrier:
      break;
  }
  return std::nullopt;
}

CollectiveType type_of(spec::Collective collective) {
  switch (collective) {
    case spec::Collective::all_gather:
      return CollectiveType::all_gather;
    case spec::Collective::reduce_scatter:
      return CollectiveType::reduce_scatter;
    case spec::Collective::all_to_all:
      return CollectiveType::all_to_all;
    case spec::Collective::broadcast:
      return CollectiveType::broadcast;
    case spec::Collective::all_reduce:
    case spec::Collective::send_recv:  // a node type of its own
      break;
  }
  return CollectiveType::all_reduce;
}

std::optional<int64_t> Attribute::integer() const {
  if (const auto* number = std::get_if<int64_t>(&value)) return *number;
  return std::nullopt;
}

std::optional<double> Attribute::real() const {
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* number = std::get_if<int64_t>(&value)) return static_cast<double>(*number);
  return std::nullopt;
}

std::string_view Attribute::text() const {
  const auto* text = std::get_if<std::string>(&value);
  return text ? std::string_view(*text) : std::string_view();
}

const Attribute* find_attribute(const std::vector<Attribute>& attributes, std::string_view name) {
  const auto found = std::find_if(attributes.begin(), attributes.end(),
                                  [&](const Attribute& a) { return a.name == name; });
  return found == attributes.end() ? nullptr : &*found;
}

const Attribute* Node::find(std::string_view wanted) const {
  return find_attribute(attributes, wanted);
}

}  // namespace triplepoint::trace::chakra
