# SPDX-License-Identifier: Apache-2.0
"""`pip install .` without a network: the wheel works in a folder of its own, beside no source tree.

    wheel_test.py SOURCE_TREE BUILD_FOLDER
"""
import glob
import os
import subprocess
import sys
import tempfile

TREE, BUILD = map(os.path.abspath, sys.argv[1:3])
sys.path.insert(0, os.path.join(TREE, "tools"))
import wheel_backend  # noqa: E402

JOB = ["--model", "llama3-70b", "--cluster", "dgx-h100", "--nodes", "16", "--tp", "8", "--pp", "4", "--gbs", "512"]
CODE = """
import triplepoint as tp
run = tp.simulate(tp.Job(model="llama3-70b", cluster="dgx-h100", nodes=16, tp=8, pp=4, gbs=512))
print(run, end="")
"""


def call(*words, **options):
    done = subprocess.run(words, capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


def main():
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode != 0:
        print("MESSAGE: skipped: pip is not installed")
        return
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, "site")
        clean = {"PATH": "/usr/bin:/bin", "HOME": folder, "PYTHONPATH": target, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        call(sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--no-index", "--target", target,
             "--config-settings", f"build-folder={BUILD}", TREE, env={**os.environ, "PIP_ROOT_USER_ACTION": "ignore"})
        said = call(sys.executable, "-c", CODE, cwd=folder, env=clean)
        program = os.path.join(target, "bin/triplepoint")
        assert said == call(program, "simulate", *JOB, cwd=folder, env=clean), "the package and the program differ"
        assert call(program, "--version", cwd=folder, env=clean).startswith("triplepoint ")
        library = os.path.join(target, "triplepoint/lib/libtriplepoint_mark.so")
        assert os.path.exists(library), f"{library} is missing"
        installed = os.path.join(target, "triplepoint/bin/triplepoint")
        core, = glob.glob(os.path.join(target, "triplepoint/_core*.so"))
        outside = [str(file) for file in wheel_backend.libraries_of(installed, core) if not os.path.realpath(file).startswith(os.path.realpath(target))]
        assert not outside, f"not in the wheel: {outside}"


if __name__ == "__main__":
    main()
