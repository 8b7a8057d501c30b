# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel of the Python package with CMake: the PEP 517 backend that pyproject.toml names. Standard library only.

The folder `triplepoint` of the wheel is the package and an install prefix at once: bin/triplepoint and lib/ find
share/triplepoint/data beside them, wherever pip puts them; lib/triplepoint has the libraries that both load, so that neither a compiler
nor Debian's packages are needed to use it. Setting of pip: `--config-settings build-folder=build/release` takes a tree that
is already configured with this Python instead of build/wheel.
"""
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

try:
    import tomllib
except ImportError:  # Python 3.10 and older; pip brings it
    from pip._vendor import tomli as tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGETS = ("triplepoint", "triplepoint_mark_wire", "triplepoint_nvtx", "python_package")
# Of every system with a C++ program: the C and C++ libraries and the loader.
SYSTEM = re.compile(r"(?:lib(?:c|m|stdc\+\+|gcc_s|dl|pthread|rt)\.so|ld-linux|linux-vdso)")
EPOCH = (1980, 1, 1, 0, 0, 0)  # of files in the wheel: equal input gives an equal wheel


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def version():
    return re.search(r"project\(triplepoint VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))[1]


def tag():
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"{python}-{python}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


# ---- building

def revision():
    said = subprocess.run(["git", "log", "-1", "--format=%h, %cs"], cwd=ROOT, capture_output=True, text=True)
    return said.stdout.strip() if said.returncode == 0 else ""


def require_programs():
    for program, package in (("cmake", "cmake"), ("ninja", "ninja-build"), ("c++", "g++"), ("esbuild", "esbuild")):
        if shutil.which(program) is None:
            sys.exit(f"triplepoint: {program} was not found (the wheel is compiled here); try: apt install {package}, or make packages-python")


def call(*words):
    subprocess.run(list(map(str, words)), cwd=ROOT, check=True)


def build(settings):
    """The folder of a finished build."""
    require_programs()
    given = (settings or {}).get("build-folder")
    folder = (ROOT / given) if given else ROOT / "build/wheel"
    if not given:
        call("cmake", "--preset", "release", "-B", folder, "-DTPT_TESTS=OFF", f"-DTPT_REVISION={revision()}",
             f"-DPython3_EXECUTABLE={sys.executable}")
    jobs = len(os.sched_getaffinity(0))
    call("cmake", "--build", folder, "-j", jobs, "--target", *TARGETS)
    return folder


def core_of(folder):
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    core = folder / "python/triplepoint" / f"_core{suffix}"
    if not core.exists():
        sys.exit(f"triplepoint: {core} was not built for Python {sys.version.split()[0]} (pybind11 or the headers of this Python "
                 "are missing); try: apt install pybind11-dev python3-dev")
    return core


def stripped(file, scratch):
    """A copy without symbols, where binutils are there."""
    copy = pathlib.Path(scratch) / file.name
    shutil.copy2(file, copy)
    if shutil.which("strip"):
        call("strip", "--strip-unneeded", copy)
    return copy


def libraries_of(*programs):
    """What the programs load, also through each other, apart from the system's own."""
    found = set()
    for program in programs:
        said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        found |= {pathlib.Path(file) for name, file in re.findall(r"^\s*(\S+) => (/\S+)", said, re.M) if not SYSTEM.match(name)}
    return sorted(found)


def package_files(folder, scratch):
    """(path in the wheel, file) of everything."""
    for file in sorted((ROOT / "python/triplepoint").iterdir()):
        if file.suffix in (".py", ".pyi") or file.name == "py.typed":
            yield f"triplepoint/{file.name}", file
    core = core_of(folder)
    yield f"triplepoint/{core.name}", stripped(core, scratch)
    yield "triplepoint/bin/triplepoint", stripped(folder / "bin/triplepoint", scratch)
    for name in ("libtriplepoint_mark.so", "libtriplepoint_nvtx.so"):
        yield f"triplepoint/lib/{name}", stripped(folder / "lib" / name, scratch)
    for file in libraries_of(core, folder / "bin/triplepoint"):
        yield f"triplepoint/lib/triplepoint/{file.name}", file
    for file in sorted((ROOT / "data").rglob("*")):
        if file.is_file():
            yield f"triplepoint/share/triplepoint/data/{file.relative_to(ROOT / 'data').as_posix()}", file


def notices(scratch):
    """Licences of what the compiled files contain, where Debian has their texts."""
    try:
        call(sys.executable, ROOT / "tools/make_notices.py", scratch, version())
    except subprocess.CalledProcessError:
        return
    for name in ("THIRD_PARTY.txt", "triplepoint.spdx.json"):
        yield name, (pathlib.Path(scratch) / name).read_bytes()


# ---- metadata

def dist_info():
    return f"{project()['name']}-{version()}.dist-info"


def metadata():
    about = project()
    lines = ["Metadata-Version: 2.1", f"Name: {about['name']}", f"Version: {version()}", f"Summary: {about['description']}",
             f"License: {about['license']['text']}", f"Requires-Python: {about['requires-python']}"]
    for extra, packages in about["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}", *(f"Requires-Dist: {package}; extra == '{extra}'" for package in packages)]
    lines += ["Description-Content-Type: text/markdown", "", (ROOT / about["readme"]).read_text(encoding="utf-8")]
    return "\n".join(lines)


def metadata_files():
    scripts = "".join(f"{name} = {target}\n" for name, target in project()["scripts"].items())
    yield "METADATA", metadata().encode()
    yield "WHEEL", f"Wheel-Version: 1.0\nGenerator: triplepoint\nRoot-Is-Purelib: false\nTag: {tag()}\n".encode()
    yield "entry_points.txt", f"[console_scripts]\n{scripts}".encode()
    yield "LICENSE", (ROOT / "LICENSE").read_bytes()


class Wheel:
    """A zip with the digest of each of its files."""

    def __init__(self, path):
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self._record = []

    def add(self, name, content, is_program=False):
        entry = zipfile.ZipInfo(name, EPOCH)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o100755 if is_program else 0o100644) << 16
        self._zip.writestr(entry, content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self._record.append(f"{name},sha256={digest},{len(content)}")

    def finish(self):
        record = f"{dist_info()}/RECORD"
        self.add(record, ("\n".join([*self._record, f"{record},,"]) + "\n").encode())
        self._zip.close()


# ---- what pip calls

def get_requires_for_build_wheel(config_settings=None):
    return []


get_requires_for_build_sdist = get_requires_for_build_wheel


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = pathlib.Path(metadata_directory) / dist_info()
    folder.mkdir()
    for name, content in metadata_files():
        (folder / name).write_bytes(content)
    return folder.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    folder = build(config_settings)
    name = f"{project()['name']}-{version()}-{tag()}.whl"
    with tempfile.TemporaryDirectory() as scratch:
        wheel = Wheel(pathlib.Path(wheel_directory) / name)
        for path, file in package_files(folder, scratch):
            wheel.add(path, file.read_bytes(), is_program="/bin/" in path)
        for path, content in [*metadata_files(), *notices(scratch)]:
            wheel.add(f"{dist_info()}/{path}", content)
        wheel.finish()
    return name


def build_sdist(sdist_directory, config_settings=None):
    base = f"{project()['name']}-{version()}"
    name = f"{base}.tar.gz"
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0")
    with tarfile.open(pathlib.Path(sdist_directory) / name, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for file in filter(None, tracked):
            archive.add(ROOT / os.fsdecode(file), f"{base}/{os.fsdecode(file)}")
    return name
