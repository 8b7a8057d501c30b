// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/batch_request.h"

#include <algorithm>
#include <array>

#include "triplepoint/base/text.h"

namespace triplepoint::formats {
namespace {

bool is_one_of(std::string_view list, std::string_view word) {
  return contains(fmt::format(" {} ", list), fmt::format(" {} ", word));
}

/// Options that need no value: what follows them is another word.
constexpr std::string_view switches =
    "contiguous disable-status disable-stdout-job-summary exclusive get-user-env help hold "
    "ignore-pbs immediate kill-on-bad-exit label multi-prog nice no-allocate no-kill no-requeue "
    "overcommit overlap oversubscribe parsable preserve-env propagate pty quiet "
    "quit-on-interrupt reboot requeue resv-ports share spread-job test-only unbuffered usage "
    "use-min-nodes verbose version container-mount-home container-readonly "
    "container-remap-root container-writable";
/// Options whose names speak of GPUs, tasks or nodes, and which change no number of them.
constexpr std::string_view idle =
    "cpus-per-gpu cpus-per-task extra-node-info gpu-bind gpu-freq gres-flags mem-per-gpu "
    "ntasks-per-core sockets-per-node task-epilog task-prolog tres-bind use-min-nodes "
    "wait-all-nodes";

constexpr int64_t most = 1'000'000;  // products of two still fit 64 bits

std::optional<int64_t> number_of(std::string_view text) {
  const auto number = whole_number(text);
  return number.value_or(most + 1) <= most ? number : std::nullopt;
}

std::string_view long_name(char letter) {
  constexpr std::array<std::pair<char, std::string_view>, 7> names{{{'N', "nodes"},
                                                                    {'n', "ntasks"},
                                                                    {'G', "gpus"},
                                                                    {'C', "constraint"},
                                                                    {'p', "partition"},
                                                                    {'w', "nodelist"},
                                                                    {'F', "nodefile"}}};
  const auto found = std::ranges::find(names, letter, &std::pair<char, std::string_view>::first);
  return found == names.end() ? std::string_view() : found->second;
}

bool bears_on_gpus(std::string_view name) {
  if (is_one_of(idle, name)) return false;
  for (const char* part : {"gpu", "gres", "tres", "node", "task", "constr", "partition"})
    if (contains(name, part)) return true;
  return false;
}

/// What srun starts is no value of an option before it.
bool starts_program(std::string_view word) {
  const std::string_view name = word.substr(word.rfind('/') + 1);
  return name.starts_with("python") || is_one_of("torchrun bash sh env numactl", name);
}

/// Of "a100:4", "gpu:a100:4(S:0)", "gres/gpu:4": what is counted, its type and its number.
struct Count {
  std::string type;
  std::optional<int64_t> number;
};

Count count_of(std::string_view text) {
  text = text.substr(0, text.find('('));
  Count count;
  const std::size_t end = text.find_last_of(":=");
  const std::string_view last = end == text.npos ? text : text.substr(end + 1);
  if (const auto number = number_of(last)) {
    count.number = number;
    count.type = end == text.npos ? "" : text.substr(0, end);
  } else {
    count.number = 1;  // as sbatch takes "gpu:a100"
    count.type = text;
  }
  return count;
}

class RequestReader {
 public:
  explicit RequestReader(BatchRequest& request) : r_(request) {}

  void read(const BatchOption& option, const std::string& place) {
    place_ = place;
    option_ = &option;
    const std::string& name = option.name;
    using Field = std::pair<std::string_view, std::optional<int64_t>*>;
    for (const auto& [known, field] :
         {Field{"ntasks", &r_.num_tasks}, Field{"ntasks-per-node", &r_.tasks_per_node},
          Field{"tasks-per-node", &r_.tasks_per_node}, Field{"ntasks-per-gpu", &tasks_per_gpu_}})
      if (name == known) return read_number(*field);
    for (const auto& [known, field] :
         {Field{"gpus", &gpus_}, Field{"tres-per-job", &gpus_}, Field{"gpus-per-node", &per_node_},
          Field{"gres", &of_gres_}, Field{"tres-per-node", &of_gres_},
          Field{"gpus-per-task", &per_task_}, Field{"tres-per-task", &per_task_}})
      if (name == known) return read_gpus(*field, !name.starts_with("gpus"));
    if (name == "nodes")
      read_nodes();
    else if (name == "constraint")
      r_.constraint = option.value;
    else if (name == "partition")
      r_.partition = option.value;
    else if (name == "nodelist" && !contains(option.value, '['))
      listed_ = std::ranges::count(option.value, ',') + 1;
    else if (option.bears)
      not_read_.push_back(
          {fmt::format("{}--{} is not read (it bears on number or kind of GPUs); write --nodes "
                       "and --gpus-per-node in its place",
                       place, name),
           !contains(name, "gpu"), !name.starts_with("node")});
  }

  void settle() {
    if (per_node_ && of_gres_ && *per_node_ != *of_gres_)
      conflict(fmt::format("--gpus-per-node has {} GPUs, --gres or --tres-per-node {}", *per_node_,
                           *of_gres_));
    if (per_node_ || of_gres_) r_.gpus_per_node = per_node_ ? per_node_ : of_gres_;
    if (!r_.num_nodes && r_.num_tasks && r_.tasks_per_node)
      share(*r_.num_tasks, *r_.tasks_per_node, "tasks", "tasks a node", r_.num_nodes);
    if (!gpus_ && per_task_ && r_.num_tasks && !r_.gpus_per_node)
      gpus_ = *per_task_ * *r_.num_tasks;
    if (!gpus_ && tasks_per_gpu_ && r_.num_tasks)
      share(*r_.num_tasks, *tasks_per_gpu_, "tasks", "tasks a GPU", gpus_);
    if (!r_.gpus_per_node && per_task_ && (r_.tasks_per_node || !r_.num_tasks))
      r_.gpus_per_node = *per_task_ * r_.tasks_per_node.value_or(1);  // a task a node, if unsaid
    if (!r_.num_nodes && listed_ > 0) r_.num_nodes = listed_;
    if (gpus_) share_gpus();
    const bool nodes = !r_.num_nodes, devices = !r_.gpus_per_node && !r_.num_gpus;
    for (BatchRequest::Problem& problem : not_read_)
      if ((problem.of_nodes && nodes) || (problem.of_devices && devices))
        r_.problems.push_back(std::move(problem));
  }

 private:
  void read_number(std::optional<int64_t>& into) {
    into = number_of(option_->value);
    if (into.value_or(0) > 0) return;
    into.reset();
    not_read_.push_back({fmt::format("{}--{} is '{}' (it must be a whole number); correct it",
                                     place_, option_->name, option_->value.substr(0, 60)),
                         true, true});
  }

  /// The fewest nodes of "4" or "4-8".
  void read_nodes() {
    const std::string_view value = option_->value;
    r_.num_nodes = number_of(value.substr(0, value.find('-')));
    if (r_.num_nodes.value_or(0) == 0)
      r_.problems.push_back(
          {fmt::format("{}--nodes is '{}' (sbatch takes a whole number); correct it or give "
                       "--nodes",
                       place_, value.substr(0, 60)),
           true, false});
    else if (contains(value, '-') && value != fmt::format("{0}-{0}", *r_.num_nodes))
      r_.remarks.push_back(
          fmt::format("--nodes {}: the fewest, {}; give --nodes for more", value, *r_.num_nodes));
  }

  /// `named`: beside other resources, as "gpu:4,nvme:1" or "gres/gpu=4,cpu=8".
  void read_gpus(std::optional<int64_t>& into, bool named) {
    into.reset();
    for (std::string each : split(option_->value, ',')) {
      if (named) {
        if (each.starts_with("gres")) each.erase(0, 5);
        if (!each.starts_with("gpu") || (each.size() > 3 && !contains(":=(", each[3]))) continue;
        each.erase(0, each.starts_with("gpu(") ? 3 : 4);
      }
      const Count count = count_of(each);
      const bool type_alone = count.type == each.substr(0, each.find('('));
      if ((type_alone && !named) || count.type.find_first_of("$<{%") != std::string::npos) {
        r_.problems.push_back(
            {fmt::format("{}--{} is '{}' (it must have a number of GPUs); correct it", place_,
                         option_->name, option_->value.substr(0, 60)),
             false, true});
        return into.reset();
      }
      into = into.value_or(0) + *count.number;
      if (count.type.empty()) continue;
      if (contains(option_->value, ',') && r_.gpu_type && *r_.gpu_type != count.type &&
          contains(option_->value, *r_.gpu_type))
        r_.problems.push_back(
            {fmt::format("{}--{} is '{}' (GPUs of one kind are modelled); give --cluster", place_,
                         option_->name, option_->value.substr(0, 60)),
             false, true});
      r_.gpu_type = count.type;
    }
  }

  void share_gpus() {
    if (r_.gpus_per_node && r_.num_nodes) {
      if (*r_.gpus_per_node * *r_.num_nodes != *gpus_)
        conflict(fmt::format("{} nodes of {} GPUs are not {} GPUs", *r_.num_nodes,
                             *r_.gpus_per_node, *gpus_));
    } else if (r_.gpus_per_node) {
      share(*gpus_, *r_.gpus_per_node, "GPUs", "GPUs a node", r_.num_nodes);
    } else if (r_.num_nodes) {
      share(*gpus_, *r_.num_nodes, "GPUs", "nodes", r_.gpus_per_node);
    } else {
      r_.num_gpus = gpus_;
    }
  }

  void share(int64_t all, int64_t part, std::string_view of, std::string_view by,
             std::optional<int64_t>& into) {
    if (part > 0 && all % part == 0)
      into = all / part;
    else
      conflict(fmt::format("{} {} do not share out evenly to {} {}", all, of, part, by));
  }

  void conflict(const std::string& what) {
    r_.problems.push_back(
        {fmt::format("{}{} (both are asked for); make them agree", place_, what), true, true});
  }

  BatchRequest& r_;
  std::string place_;
  const BatchOption* option_ = nullptr;
  std::optional<int64_t> gpus_, per_node_, of_gres_, per_task_, tasks_per_gpu_;
  int64_t listed_ = 0;  // nodes of --nodelist
  std::vector<BatchRequest::Problem> not_read_;
};

}  // namespace

std::vector<std::string> directive_words(std::string_view line) {
  std::vector<std::string> words(1);
  char quote = '\0';
  bool begun = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\\' && i + 1 < line.size()) {
      words.back() += line[++i];
    } else if (quote != '\0' ? c == quote : c == '"' || c == '\'') {
      quote = quote != '\0' ? '\0' : c;
      begun = true;
    } else if (quote == '\0' && c == '#') {
      break;
    } else if (quote == '\0' && trimmed(std::string_view(&c, 1)).empty()) {
      if (begun || !words.back().empty()) words.emplace_back();
      begun = false;
    } else {
      words.back() += c;
    }
  }
  if (!begun && words.back().empty()) words.pop_back();
  return words;
}

std::vector<BatchOption> options_of(std::span<const OptionWord> words, std::string_view program) {
  const std::string plain = program == "srun" ? "EhHjklOQsuvVXZ" : "hHkOQsuvVW";
  std::vector<BatchOption> all;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& text = words[i].text;
    const auto next = [&] { return i + 1 < words.size() ? words[++i].text : std::string(); };
    BatchOption option;
    option.word = i;
    if (text.starts_with("--")) {
      const std::size_t equals = text.find('=');
      option.name = text.substr(2, equals == text.npos ? equals : equals - 2);
      std::ranges::replace(option.name, '_', '-');
      const bool single = is_one_of(switches, option.name) || option.name.starts_with("no-") ||
                          (option.name == "wait" && program == "sbatch");
      if (equals != text.npos)
        option.value = text.substr(equals + 1);
      else if (!single && i + 1 < words.size() && !words[i + 1].text.starts_with('-') &&
               !starts_program(words[i + 1].text))
        option.value = next();
    } else if (text.starts_with('-') && text.size() > 1) {
      std::size_t at = 1;
      while (at < text.size() && contains(plain, text[at]))
        ++at;
      if (at < text.size()) option.name = long_name(text[at]);
      const bool alone = at == text.size() || (at + 1 == text.size() && contains("IK", text[at]));
      option.value = at + 1 < text.size() ? text.substr(at + 1) : alone ? "" : next();
      if (option.value.starts_with('=')) option.value.erase(0, 1);
    } else if (program == "srun") {
      break;
    } else {
      continue;
    }
    option.last = i;
    option.bears = bears_on_gpus(option.name);
    all.push_back(std::move(option));
  }
  return all;
}

void read_options(std::span<const OptionWord> words, std::string_view program,
                  BatchRequest& request) {
  RequestReader reader(request);
  for (const BatchOption& option : options_of(words, program))
    reader.read(option, words[option.word].place);
  reader.settle();
}

namespace {

/// The value of a key in "4:ngpus=8:gpu_model=a100".
std::optional<std::string> resource(std::string_view chunk, std::string_view key) {
  for (const std::string& part : split(chunk, ':'))
    if (part.starts_with(fmt::format("{}=", key))) return part.substr(key.size() + 1);
  return std::nullopt;
}

}  // namespace

void read_pbs(std::string_view line, const std::string& place, BatchRequest& request) {
  const std::size_t select = line.find("select="), nodes = line.find("nodes=");
  const std::size_t begin = select != line.npos ? select + 7 : nodes + 6;
  if (select == line.npos && nodes == line.npos) return;
  const std::string_view rest = line.substr(begin);
  const std::string_view chunk = rest.substr(0, rest.find_first_of(", \t#"));
  const std::string_view count = chunk.substr(0, chunk.find(':'));
  request.num_nodes = contains(count, '=') ? 1 : number_of(count);
  const bool unequal = contains(chunk, '+');
  if (unequal || request.num_nodes.value_or(0) == 0)
    request.problems.push_back(
        {fmt::format("{}'{}' is no number of equal nodes; give --nodes and --cluster", place,
                     chunk.substr(0, 60)),
         true, unequal});
  if (unequal) return request.num_nodes.reset();
  for (const char* key : {"ngpus", "gpus"})
    if (const auto gpus = resource(chunk, key)) request.gpus_per_node = number_of(*gpus);
  for (const char* key : {"gpu_model", "gpu_type", "gputype", "accelerator_model"})
    if (const auto type = resource(chunk, key)) request.gpu_type = type;
}

void read_bsub(std::string_view line, const std::string& place, BatchRequest& request) {
  const std::vector<std::string> words = directive_words(line);
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == "-nnodes") {
      const OptionWord word{"--nodes=" + words[i + 1], place};
      read_options(std::span(&word, 1), "sbatch", request);
    }
    if (words[i] != "-gpu") continue;
    std::string resources = words[i + 1];
    if (const auto type = resource(resources, "gmodel")) request.gpu_type = type;
    if (const auto number = resource(resources, "num"))
      request.gpus_per_node = number_of(number->substr(0, number->find('/')));
  }
}

}  // namespace triplepoint::formats
