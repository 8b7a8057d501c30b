// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/yaml_document.h"

#include <cstddef>
#include <exception>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

namespace triplepoint::formats {
namespace {

constexpr std::size_t largest_text = std::size_t{4} << 20;
constexpr std::size_t most_nodes = 100'000;
constexpr std::size_t deepest = 64;

/// What the parser cannot go on with; it unwinds yaml-cpp's parser, which knows only exceptions.
struct Refused : std::runtime_error {
  Refused(int at, const std::string& what) : std::runtime_error(what), line(at) {}
  int line;
};

std::size_t count_nodes(const YamlNode& node) {
  std::size_t count = 1;
  for (const YamlNode& item : node.items)
    count += count_nodes(item);
  for (const YamlEntry& entry : node.entries)
    count += count_nodes(entry.value);
  return count;
}

/// Builds the tree from yaml-cpp's events. Its own tree would forget the lines of keys, keep double
/// keys and follow aliases without limit.
class TreeBuilder : public YAML::EventHandler {
 public:
  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    put({YamlNode::Kind::null, line_of(mark), {}, false, {}, {}}, anchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    put({YamlNode::Kind::scalar, line_of(mark), value, tag == "!", {}, {}}, anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto target = anchors_.find(anchor);
    if (target == anchors_.end())
      throw Refused(line_of(mark), "an alias refers to a table or list that contains it");
    YamlNode copy = target->second;
    count(count_nodes(copy), line_of(mark));
    add(std::move(copy));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open({YamlNode::Kind::list, line_of(mark), {}, false, {}, {}}, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open({YamlNode::Kind::table, line_of(mark), {}, false, {}, {}}, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Level {
    YamlNode node;
    YAML::anchor_t anchor;
    std::optional<std::string> key;    // of a table: read, its value is awaited
    std::map<std::string, int> lines;  // of a table: where its keys stand
  };

  static int line_of(const YAML::Mark& mark) { return mark.line + 1; }

  void count(std::size_t more, int line) {
    nodes_ += more;
    if (nodes_ > most_nodes) throw Refused(line, "the file has more than 100000 nodes");
  }

  void put(YamlNode node, YAML::anchor_t anchor) {
    count(1, node.line);
    if (anchor != YAML::NullAnchor) anchors_[anchor] = node;
    add(std::move(node));
  }

  void open(YamlNode node, YAML::anchor_t anchor) {
    count(1, node.line);
    if (levels_.size() >= deepest) throw Refused(node.line, "nested deeper than 64 levels");
    levels_.push_back({std::move(node), anchor, std::nullopt, {}});
  }

  void close() {
    Level level = std::move(levels_.back());
    levels_.pop_back();
    if (level.anchor != YAML::NullAnchor) {
      count(count_nodes(level.node), level.node.line);
      anchors_[level.anchor] = level.node;
    }
    add(std::move(level.node));
  }

  void add(YamlNode node) {
    if (levels_.empty()) {
      root_ = std::move(node);
      return;
    }
    Level& level = levels_.back();
    if (level.node.kind == YamlNode::Kind::list)
      level.node.items.push_back(std::move(node));
    else if (!level.key)
      take_key(level, node);
    else
      level.node.entries.push_back({*std::exchange(level.key, std::nullopt), std::move(node)});
  }

  static void take_key(Level& level, const YamlNode& node) {
    if (node.kind != YamlNode::Kind::scalar) throw Refused(node.line, "a key is not a plain word");
    const auto [first, is_new] = level.lines.emplace(node.scalar, node.line);
    if (!is_new)
      throw Refused(node.line, fmt::format("key '{}' is given twice (the first is in line {}); "
                                           "leave one out",
                                           node.scalar, first->second));
    level.key = node.scalar;
  }

  YamlNode root_;
  std::vector<Level> levels_;
  std::map<YAML::anchor_t, YamlNode> anchors_;
  std::size_t nodes_ = 0;
};

}  // namespace

Result<YamlNode> parse_yaml(std::string_view text, std::string_view name) {
  if (text.size() > largest_text)
    return error("{}: larger than 4 MiB (no configuration is); try another file", name);
  // yaml-cpp drops everything after a zero byte without a word.
  if (text.find('\0') != std::string_view::npos)
    return error("{}: has zero bytes (it is not a text file); try another file", name);
  std::istringstream stream{std::string(text)};
  TreeBuilder builder;
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder))
      return error("{}: holds no YAML document; try another file", name);
    YamlNode first = builder.take();
    while (first.next_document == 0 && parser.HandleNextDocument(builder))
      if (const YamlNode next = builder.take(); next.kind != YamlNode::Kind::null)
        first.next_document = next.line;
    return first;
  } catch (const Refused& refused) {
    return error("{}:{}: {}", name, refused.line, refused.what());
  } catch (const YAML::Exception& broken) {
    return error("{}:{}: not YAML ({}); correct the line", name, broken.mark.line + 1, broken.msg);
  } catch (const std::exception& broken) {
    return error("{}: not YAML ({}); try another file", name, broken.what());
  }
}

}  // namespace triplepoint::formats
