// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/script_run.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/text.h"

#include "triplepoint/system/process.h"

namespace triplepoint::formats {
namespace {

/// What stands in for programs that start others or train. One that starts another program (srun
/// bash -c "...") does so with its own words remembered; what comes last is written down.
constexpr const char* stand_in = R"sh(#!/bin/bash
me=${0##*/}
case $me in
  scontrol)
    [[ $1 == show && $2 == hostname* ]] && for ((i = 0; i < ${SLURM_NNODES:-1}; ++i)); do echo node$i; done
    exit 0 ;;
  sleep) exit 0 ;;
  nvidia-smi | rocm-smi) exit 1 ;;
  python | python3) case $1 in -c | - | --version | -V | "") exec /usr/bin/python3 "$@" ;; esac ;;
esac
words=("$me" "$@")
case $me in
  srun | mpirun | mpiexec | jsrun | aprun | prun | sbatch | singularity | apptainer | docker | podman | enroot | numactl | nsys | pdsh | ssh | conda | micromamba | uv)
    for ((i = 1; i < ${#words[@]}; ++i)); do
      next=${words[i]}
      case $next in
        -* | *=*) continue ;;
        *.sh | *.sbatch | *.slurm) [[ -f $next ]] || continue; next=bash; i=$((i - 1)) ;;
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
{
  flock 9
  printf 'W%s\0' "${before[@]}" "${words[@]}" >&9
  while IFS= read -r -d '' each; do
    case $each in CUDA_* | TRIPLEPOINT_* | NVTE_* | NCCL_*) printf 'E%s\0' "$each" >&9 ;; esac
  done < <(env -0)
  printf 'Z\0' >&9
} 9>>/launched
)sh";

constexpr const char* programs[] = {
    "torchrun",         "python",  "python3",     "srun",      "mpirun", "mpiexec",  "deepspeed",
    "accelerate",       "jsrun",   "aprun",       "prun",      "sbatch", "scontrol", "nvidia-smi",
    "rocm-smi",         "sleep",   "singularity", "apptainer", "docker", "podman",   "enroot",
    "numactl",          "nsys",    "pdsh",        "ssh",       "ray",    "conda",    "micromamba",
    "llamafactory-cli", "axolotl", "torchx",      "uv"};

/// A new folder that goes with this object.
class Folder {
 public:
  static Result<Folder> make() {
    std::error_code problem;
    const Path parent = std::filesystem::temp_directory_path(problem);
    std::string name = (parent / "triplepoint-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      return error(fmt::format("cannot make a folder like {} (is there room?); free some", name));
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

Result<void> write_stand_ins(const Path& folder) {
  TPT_TRY(make_folder(folder));
  std::error_code problem;
  const Path first = folder / programs[0];
  TPT_TRY(write_file_atomically(first, stand_in));
  std::filesystem::permissions(first, std::filesystem::perms::owner_all, problem);
  for (const char* program : programs)
    if (folder / program != first)
      std::filesystem::create_symlink(programs[0], folder / program, problem);
  return {};
}

std::vector<std::string> command_of(const Path& script, const ScriptWorld& world, const Path& own) {
  const std::string folder = script.parent_path().string();
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
  const std::string seen = folder == "/" ? script.string() : folder;
  add({"--dir", "/home/user", "--ro-bind", seen, seen, "--ro-bind", (own / "stand-ins").string(),
       "/stand-ins", "--bind", (own / "launched").string(), "/launched", "--chdir", folder});
  std::map<std::string, std::string> environment = world.variables;
  environment.insert({{"PATH", "/stand-ins:/usr/local/bin:/usr/bin:/bin"},
                      {"HOME", "/home/user"},
                      {"USER", "user"},
                      {"LANG", "C.UTF-8"}});
  for (const auto& [name, value] : environment)
    add({"--setenv", name, value});
  // Bounds of processes, memory of each (KiB) and size of a file (KiB).
  add({"--", "/bin/bash", "-c", "ulimit -u 2048 -v 2097152 -f 4096; exec /bin/bash \"$0\" \"$@\"",
       script.string()});
  words.insert(words.end(), world.arguments.begin(), world.arguments.end());
  return words;
}

std::vector<Launch> launches_in(std::string_view record) {
  std::vector<Launch> launches(1);
  for (const std::string& part : split(record, '\0')) {
    ShellCommand& command = launches.back().command;
    const std::string value = part.empty() ? part : part.substr(1);
    if (part.starts_with('W')) command.words.push_back({value, 0, {}});
    if (part.starts_with('E'))
      command.variables[value.substr(0, value.find('='))] = value.substr(value.find('=') + 1);
    if (part.starts_with('Z')) launches.emplace_back();
  }
  launches.pop_back();  // what was not written to its end
  return launches;
}

/// The last lines that the script wrote.
std::string end_of(const std::string& log) {
  std::string_view text = trimmed(log);
  if (text.size() > 300) text.remove_prefix(text.size() - 300);
  return std::string(text);
}

}  // namespace

Result<std::vector<Launch>> run_script(const std::string& path, const ScriptWorld& world,
                                       Seconds limit) {
  const Path script = absolute_path(path);
  const Folder own = TPT_TRY(Folder::make());
  TPT_TRY(write_stand_ins(own.path() / "stand-ins"));
  TPT_TRY(write_file_atomically(own.path() / "launched", ""));
  const Path log = own.path() / "log";
  const auto command = command_of(script, world, own.path());
  const Result<GroupEnd> end = run_in_group(command, log, limit, interrupted);
  if (!end)
    return error(
        "--run-script needs bubblewrap, which is not installed (the script would run unguarded); "
        "install the package bubblewrap, or write the command that the script launches in a file");
  const std::string wrote = read_file(log).value_or("");
  if (wrote.starts_with("bwrap: "))
    return error(
        fmt::format("--run-script: no sandbox can be made here ({}); allow user namespaces, or "
                    "write the command that the script launches in a file",
                    end_of(wrote)));
  std::vector<Launch> launches = launches_in(TPT_TRY(read_file(own.path() / "launched")));
  if (!launches.empty()) return launches;
  if (end->how == GroupEnd::How::timed_out)
    return error(
        fmt::format("{}: launched nothing within {} s; give what it waits for by -- ARGS or "
                    "--env NAME=VALUE",
                    path, limit / unit::s));
  return error(
      fmt::format("{}: ended with {} and launched nothing{}{}; give what it needs by -- ARGS "
                  "or --env NAME=VALUE",
                  path, end->code, wrote.empty() ? "" : ": ", end_of(wrote)));
}

}  // namespace triplepoint::formats
