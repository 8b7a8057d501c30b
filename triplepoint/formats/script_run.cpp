// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/script_run.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "triplepoint/base/files.h"
#include "triplepoint/base/text.h"

#include "triplepoint/system/process.h"

namespace triplepoint::formats {
namespace {

/// What stands in for programs that start others or train. One that starts another program (srun
/// bash -c "...") does so with its own words remembered; what comes last is written down. What
/// counts GPUs counts those of a usual node.
constexpr const char* stand_in = R"sh(#!/bin/bash
me=${0##*/}
gpus=${SLURM_GPUS_ON_NODE:-8}
write_down() { flock 9; printf '%s\0' "$@" >&9; } 9>>/launched
note_gpus() { write_down "N$1 counts $gpus GPUs (--env SLURM_GPUS_ON_NODE=N for another number)"; }
case $me in
  scontrol)
    [[ $1 == show && $2 == job* ]] && echo "Command=$TPT_SCRIPT"
    [[ $1 == show && $2 == hostname* ]] && for ((i = 0; i < ${SLURM_NNODES:-1}; ++i)); do echo node$i; done
    exit 0 ;;
  hostname) case $1 in -i | -I | --ip* | --all-ip*) echo 127.0.0.1 ;; *) echo node0 ;; esac; exit 0 ;;
  nvidia-smi)
    case "$*" in
      *-query-gpu=count*) shown=$gpus ;;
      *-L* | *--list-gpus* | *-query-gpu=*) shown=GPU ;;
      *) exit 0 ;;
    esac
    note_gpus nvidia-smi
    for ((i = 0; i < gpus; ++i)); do echo "$shown"; done
    exit 0 ;;
  rocm-smi | amd-smi) exit 1 ;;
  sudo) while [[ $1 == -* || $1 == *=* ]]; do shift; done; exec "$@" ;;
  python | python3) case $1 in
    -c | - | --version | -V | "")
      [[ $2 == *torch* ]] && note_gpus torch
      GPUS=$gpus PYTHONPATH=/stand-ins/modules:$PYTHONPATH exec /usr/bin/python3 "$@" ;;
    esac ;;
  sbatch)  # a script's own lines are options; without a file it comes by stdin
    file=
    for each in "$@"; do [[ -f $each ]] && file=$each && break; done
    text=$(cat "${file:-/dev/stdin}")
    options=($(sed -n 's/^#SBATCH *//p' <<<"$text"))
    [[ " ${options[*]} $* " =~ ' '(--nodes[= ]|-N ?)([0-9]+) ]] &&
      export SLURM_NNODES=${BASH_REMATCH[2]} SLURM_JOB_NUM_NODES=${BASH_REMATCH[2]}
    set -- "${options[@]}" "$@"
    [[ -n $file ]] || set -- "$@" bash -c "$text" ;;
esac
words=("$me" "$@")
case $me in torchrun | deepspeed | accelerate | ray | llamafactory-cli | axolotl | python*) ;; *)
  for ((i = 1; i < ${#words[@]}; ++i)); do
    next=${words[i]}
    case $next in
      -*) continue ;;
      *=*) case ${words[i - 1]} in -x | -e | --env) export "$next" ;; esac; continue ;;
      *.sh | *.sbatch | *.slurm | "$file") [[ -f $next ]] || continue; next=bash; i=$((i - 1)) ;;
      bash | sh | */bash | */sh | env | python | python3 | torchrun | deepspeed | accelerate) ;;
      */python | */python3 | */torchrun | */deepspeed | */accelerate) next=${next##*/} ;;
      *) [[ -x /stand-ins/$next ]] || continue ;;
    esac
    for ((j = 0; j < i; ++j)); do before+=${words[j]}$'\x1f'; done
    export TPT_BEFORE=$TPT_BEFORE$before
    exec "${next##*/}" "${words[@]:i + 1}"
  done ;;
esac
IFS=$'\x1f' read -r -d '' -a before <<<"$TPT_BEFORE"
last=$((${#before[@]} - 1))
[[ $last -ge 0 && ${before[last]} == $'\n' ]] && unset "before[$last]"
record=("${before[@]/#/W}" "${words[@]/#/W}")
while IFS= read -r -d '' each; do
  case $each in CUDA_* | TRIPLEPOINT_* | NVTE_* | NCCL_*) record+=("E$each") ;; esac
done < <(env -0)
[[ -p /dev/stdout ]] && record+=(P)
write_down "${record[@]}" Z
)sh";

/// Limits of the sandbox hold, whatever a script asks for.
constexpr const char* environment = R"sh(ulimit() { builtin ulimit "$@" 2>/dev/null || true; }
)sh";

constexpr const char* torch_module = R"py(import os
class cuda:
    device_count = staticmethod(lambda: int(os.environ["GPUS"]))
    is_available = staticmethod(lambda: True)
)py";

constexpr const char* programs[] = {"torchrun",    "python",     "python3",
                                    "srun",        "mpirun",     "mpiexec",
                                    "deepspeed",   "accelerate", "jsrun",
                                    "aprun",       "prun",       "sbatch",
                                    "scontrol",    "nvidia-smi", "rocm-smi",
                                    "amd-smi",     "sudo",       "ssh",
                                    "singularity", "apptainer",  "docker",
                                    "podman",      "enroot",     "numactl",
                                    "nsys",        "pdsh",       "hostname",
                                    "ray",         "conda",      "micromamba",
                                    "uv",          "axolotl",    "llamafactory-cli",
                                    "torchx"};

/// Programs that install, fetch, wait or log in: they do nothing.
constexpr const char* idle_programs[] = {"sleep",  "pip",   "pip3",   "apt",   "apt-get",
                                         "wget",   "curl",  "module", "wandb", "hf",
                                         "git",    "rsync", "scp",    "pkill", "killall",
                                         "sbcast", "chown", "nc",     "ping",  "huggingface-cli"};

/// What is copied for the script to change: files up to a size, up to a number of them; of the
/// others there are links. Then bounds of processes, of their memory and of a file (KiB).
constexpr const char* begin_in_sandbox = R"sh(
source=$1 folder=$2 start=$3 missing=$4; shift 4
if [[ -n $source ]]; then
  cd "$source"
  find . -xdev -maxdepth 12 -name .git -prune -o -type d -print0 | head -zn 5000 | (cd "$folder" && xargs -0 mkdir -p)
  find . -xdev -maxdepth 12 -name .git -prune -o \( -type l -o -type f -size -257k \) -print0 | head -zn 20000 | xargs -0 cp -a --parents -t "$folder"
  find . -xdev -maxdepth 12 -name .git -prune -print0 -o -type f -size +256k -print0 | head -zn 2000 |
    while IFS= read -r -d '' each; do ln -s "$source/$each" "$folder/$each"; done
fi 2>/dev/null
cd "$start"
while IFS= read -r each; do
  name=${each#?}
  case $each in
    D*) mkdir -p "$name" ;;
    F*) mkdir -p "$(dirname "$name")" && : >"$name" && chmod +x "$name" ;;
    P*) mkdir -p "$(dirname "$name")" && ln -s "/stand-ins/${name##*/}" "$name" ;;
  esac 2>/dev/null
done <<<"$missing"
ulimit -u 2048 -v 2097152 -f 4096
exec /bin/bash "$@"
)sh";

/// A new folder that goes with this object.
class Folder {
 public:
  static Result<Folder> make() {
    std::error_code problem;
    const Path parent = std::filesystem::temp_directory_path(problem);
    std::string name = (parent / "triplepoint-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      return error("cannot make a folder like {} (is there room?); free some", name);
    return Folder(name);
  }
  explicit Folder(std::string path) : path_(std::move(path)) {}
  Folder(Folder&& other) noexcept : path_(std::exchange(other.path_, Path())) {}
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  Folder& operator=(Folder&&) = delete;
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const Path& path() const { return path_; }

 private:
  Path path_;
};

Result<void> write_stand_ins(const Path& folder, const std::vector<std::string>& more) {
  TPT_TRY(make_folder(folder / "modules"));
  std::error_code problem;
  const Path first = folder / programs[0];
  TPT_TRY(write_file_atomically(first, stand_in));
  TPT_TRY(write_file_atomically(folder / "modules/torch.py", torch_module));
  TPT_TRY(write_file_atomically(folder / "modules/environment.sh", environment));
  std::filesystem::permissions(first, std::filesystem::perms::owner_all, problem);
  for (const char* program : programs)
    if (folder / program != first)
      std::filesystem::create_symlink(programs[0], folder / program, problem);
  for (const char* program : idle_programs)
    std::filesystem::create_symlink("/bin/true", folder / program, problem);
  for (const std::string& program : more)
    std::filesystem::create_symlink(programs[0], folder / program, problem);
  return {};
}

/// The repository that the script is in, as it may use its neighbours; else its folder.
Path folder_of(const Path& script) {
  std::error_code ignored;
  for (Path folder = script.parent_path(); folder.has_relative_path();
       folder = folder.parent_path())
    if (std::filesystem::exists(folder / ".git", ignored)) return folder;
  return script.parent_path();
}

/// What a script looked for and did not find, as it says itself.
struct Missing {
  enum class Kind { folder, file, program } kind;
  std::string name;
  int line;
  friend auto operator<=>(const Missing&, const Missing&) = default;
};

bool is_stand_in(std::string_view name) {
  return std::find(std::begin(programs), std::end(programs), name) != std::end(programs);
}

/// "run.sh: line 7: env.sh: No such file or directory", "find: 'data': No such file or directory".
std::optional<Missing> missing_in_line(std::string_view line) {
  constexpr std::string_view file = ": No such file or directory", program = ": command not found";
  const bool is_program = line.ends_with(program);
  if (!is_program && !line.ends_with(file)) return std::nullopt;
  line.remove_suffix(is_program ? program.size() : file.size());
  Missing missing{is_program ? Missing::Kind::program : Missing::Kind::file, {}, 0};
  constexpr std::string_view mark = ": line ";
  if (const std::size_t at = line.find(mark); at != line.npos) {
    line.remove_prefix(at + mark.size());
    missing.line = static_cast<int>(whole_number(line.substr(0, line.find(':'))).value_or(0));
  }
  if (contains(line, ": cd: ")) missing.kind = Missing::Kind::folder;
  constexpr std::string_view opens = "‘", closes = "’";
  if (const std::size_t quote = line.rfind(opens); quote != line.npos) {
    line.remove_prefix(quote + opens.size());
    line = line.substr(0, line.find(closes));
  } else {
    line.remove_prefix(std::min(line.rfind(": ") + 2, line.size()));
  }
  missing.name = trimmed(line, " '\"");
  constexpr std::size_t longest = 300;
  const bool is_name = !missing.name.empty() && missing.name.size() < longest;
  return is_name ? std::optional(missing) : std::nullopt;
}

std::vector<Missing> missing_in(std::string_view log) {
  std::vector<Missing> all;
  for (const std::string_view line : lines_of(log))
    if (const auto missing = missing_in_line(trimmed(line, "\r")))
      if (!holds(all, *missing)) all.push_back(*missing);
  return all;
}

std::string told(const std::vector<Missing>& missing) {
  std::set<std::string> all;
  for (const Missing& each : missing)
    all.insert(each.line > 0 ? fmt::format("{} (line {})", each.name, each.line) : each.name);
  return fmt::format("{}", fmt::join(all, ", "));
}

/// What a script is run in: its file, the folder that it can change, and where it starts.
struct Place {
  Path script, folder, start;
};

std::vector<std::string> command_of(const Place& place, const ScriptWorld& world, const Path& own,
                                    const std::vector<Missing>& missing) {
  const auto& [script, folder, start] = place;
  std::vector<std::string> words{"bwrap", "--unshare-all", "--die-with-parent", "--new-session",
                                 "--clearenv"};
  const auto add = [&](std::initializer_list<std::string> more) {
    words.insert(words.end(), more);
  };
  for (const char* part : {"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/alternatives"})
    add({"--ro-bind-try", part, part});
  add({"--proc", "/proc", "--dev", "/dev"});
  for (const char* empty : {"/tmp", "/home", "/root", "/run"})
    add({"--size", "67108864", "--tmpfs", empty});
  const bool is_root = folder == "/";
  if (is_root)
    add({"--ro-bind", script.string(), script.string()});
  else
    add({"--ro-bind", folder.string(), "/outside", "--size", "268435456", "--tmpfs",
         folder.string()});
  add({"--dir", "/home/user", "--ro-bind", (own / "stand-ins").string(), "/stand-ins", "--bind",
       (own / "launched").string(), "/launched"});
  std::map<std::string, std::string> environment = world.variables;
  environment.insert({{"PATH", "/stand-ins:/usr/local/bin:/usr/bin:/bin"},
                      {"BASH_ENV", "/stand-ins/modules/environment.sh"},
                      {"TPT_SCRIPT", script.string()},
                      {"HOME", "/home/user"},
                      {"USER", "user"},
                      {"TERM", "xterm"},
                      {"LANG", "C.UTF-8"}});
  for (const auto& [name, value] : environment)
    add({"--setenv", name, value});
  std::string provided;
  for (const Missing& each : missing)
    if (each.kind != Missing::Kind::program) {
      const std::string name = Path(each.name).filename().string();
      const bool program = each.kind == Missing::Kind::file && is_stand_in(name);
      provided += fmt::format("{}{}\n",
                              each.kind == Missing::Kind::folder ? 'D'
                              : program                          ? 'P'
                                                                 : 'F',
                              each.name);
    }
  add({"--", "/bin/bash", "-c", begin_in_sandbox, "bash", is_root ? "" : "/outside",
       folder.string(), start.string(), provided, script.string()});
  words.insert(words.end(), world.arguments.begin(), world.arguments.end());
  return words;
}

/// What the stand-ins wrote down, with what is to be told of it.
std::vector<Launch> launches_in(std::string_view record) {
  std::vector<Launch> launches(1);
  std::vector<std::string> remarks;
  const auto add_once = [&](const std::string& what) {
    if (!holds(remarks, what)) remarks.push_back(what);
  };
  for (const std::string& part : split(record, '\0')) {
    ShellCommand& command = launches.back().command;
    const std::string value = part.empty() ? part : part.substr(1);
    if (part.starts_with('W')) command.words.push_back({value, 0, {}});
    if (part.starts_with('E'))
      command.variables[value.substr(0, value.find('='))] = value.substr(value.find('=') + 1);
    if (part.starts_with('N')) add_once(value);
    if (part == "P" && !command.is_training() && command.first_argument() > 0)
      add_once(fmt::format("{} printed nothing, as it did not run",
                           command.words[command.first_argument() - 1].text));
    if (part == "Z") launches.emplace_back();
  }
  launches.pop_back();  // what was not written to its end
  for (Launch& launch : launches)
    launch.command.remarks = remarks;
  return launches;
}

/// The last lines that the script wrote.
std::string end_of(const std::string& log) {
  std::string_view text = trimmed(log);
  constexpr std::size_t most = 600;
  if (text.size() > most) text.remove_prefix(text.size() - most);
  return std::string(text);
}

/// What one run of a script comes to.
struct Trial {
  std::vector<Launch> launches;
  std::string wrote;
  GroupEnd end;
};

Result<Trial> run_once(const Place& place, const ScriptWorld& world,
                       const std::vector<Missing>& missing, Seconds limit) {
  const Folder own = TPT_TRY(Folder::make());
  std::vector<std::string> more;
  for (const Missing& each : missing)
    if (each.kind == Missing::Kind::program && !contains(each.name, '/')) more.push_back(each.name);
  TPT_TRY(write_stand_ins(own.path() / "stand-ins", more));
  TPT_TRY(write_file_atomically(own.path() / "launched", ""));
  const Path log = own.path() / "log";
  const Result<GroupEnd> end =
      run_in_group(command_of(place, world, own.path(), missing), log, limit, interrupted);
  if (!end)
    return error(
        "--run-script needs bubblewrap, which is not installed (the script would run unguarded); "
        "install the package bubblewrap, or write the command that the script launches in a file");
  const std::string wrote = read_file(log).value_or("");
  if (wrote.starts_with("bwrap: "))
    return error(
        "--run-script: no sandbox can be made here ({}); allow user namespaces, or "
        "write the command that the script launches in a file",
        end_of(wrote));
  return Trial{launches_in(TPT_TRY(read_file(own.path() / "launched"))), wrote, *end};
}

bool trains(const std::vector<Launch>& launches, bool by_sizes) {
  return std::ranges::any_of(launches, [&](const Launch& launch) {
    return launch.command.is_training() || (!by_sizes && launch.command.first_argument() > 0);
  });
}

/// What it started instead of a training, shortened.
std::string started(const std::vector<Launch>& launches) {
  if (launches.empty()) return {};
  std::string all;
  for (const ShellWord& word : launches.back().command.words)
    all += " " + word.text;
  return fmt::format("; it started{}", all.substr(0, 120));
}

std::string why_nothing(const std::string& path, const Trial& run,
                        const std::vector<Missing>& missing, Seconds limit) {
  const std::string lacks =
      missing.empty() ? "" : fmt::format("; it did not find {}", told(missing));
  if (run.end.how == GroupEnd::How::timed_out)
    return fmt::format(
        "{}: launched no training within {} s{}; give what it waits for by -- ARGS "
        "or --env NAME=VALUE",
        path, limit / unit::s, lacks);
  const std::string wrote = end_of(run.wrote);
  return fmt::format(
      "{}: ended with {} and launched no training{}{}{}{}; give what it needs by "
      "-- ARGS or --env NAME=VALUE",
      path, run.end.code, wrote.empty() ? "" : ": ", wrote, started(run.launches), lacks);
}

/// Runs it again and again, each time with empty ones of what it did not find.
Result<std::vector<Launch>> run_from(const Place& place, const std::string& path,
                                     const ScriptWorld& world, Seconds limit) {
  constexpr int most_trials = 8;
  std::vector<Missing> missing;
  for (int trial = 1;; ++trial) {
    Trial run = TPT_TRY(run_once(place, world, missing, limit));
    const std::size_t before = missing.size();
    for (const Missing& each : missing_in(run.wrote))
      if (!holds(missing, each)) missing.push_back(each);
    const bool again =
        missing.size() > before && trial < most_trials && run.end.how != GroupEnd::How::timed_out;
    if (!trains(run.launches, again) && again) continue;
    if (!trains(run.launches, false)) return error(why_nothing(path, run, missing, limit));
    for (Launch& launch : run.launches)
      if (!missing.empty())
        launch.command.remarks.push_back(
            fmt::format("the script ran without what is not here: {}", told(missing)));
    return run.launches;
  }
}

}  // namespace

Result<std::vector<Launch>> run_script(const std::string& path, const ScriptWorld& world,
                                       Seconds limit) {
  const Path script = absolute_path(path);
  Place place{script, folder_of(script), script.parent_path()};
  auto launches = run_from(place, path, world, limit);
  if (launches || place.start == place.folder) return launches;
  place.start = place.folder;  // many start at the root of their repository
  auto others = run_from(place, path, world, limit);
  return others ? others : launches;
}

}  // namespace triplepoint::formats
