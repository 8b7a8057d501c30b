# SPDX-License-Identifier: Apache-2.0
"""What the checks of the live commands share: the program with made-up GPUs, an exporter, plain sockets."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM, FAKE_NVML = (os.path.abspath(path) for path in sys.argv[1:3])
PATIENCE_S = 60  # a loaded machine takes its time; nothing here is judged by speed


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


def need(program):
    found = shutil.which(program)
    if found is None:
        skip(f"{program} is not installed")
    return found


def environment(script="eight_gpus.script", **more):
    """Eight made-up GPUs; no sensor of this machine's own besides /proc."""
    env = dict(os.environ, TRIPLEPOINT_NVML=FAKE_NVML, TRIPLEPOINT_FAKE_NVML=os.path.join(HERE, script),
               LC_ALL="C.UTF-8")
    env.pop("TRIPLEPOINT_TOKEN", None)
    env.update(more)
    return env


def run(*words, env=None, **options):
    return subprocess.run([PROGRAM, *words], env=env or environment(), capture_output=True, text=True,
                          timeout=PATIENCE_S, **options)


def expect(condition, what):
    if not condition:
        print("FAILED: " + what)
        sys.exit(1)


def until(condition, what):
    """The first true value of `condition`."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    expect(False, "waited in vain: " + what)


class Exporter:
    """`triplepoint exporter` on a free port."""

    def __init__(self, *words, env=None):
        self.process = subprocess.Popen([PROGRAM, "exporter", "--listen", "127.0.0.1:0", *words],
                                        env=env or environment(), stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        found = re.search(r"http://(127\.0\.0\.1:(\d+))/metrics", line)
        expect(found, "the exporter says where it listens: " + line)
        self.address, self.port = found[1], int(found[2])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(PATIENCE_S)

    def get(self, path, headers=None):
        import urllib.error
        import urllib.request
        request = urllib.request.Request(f"http://{self.address}{path}", headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as wrong:
            return wrong.code, wrong.read().decode()

    def metrics(self):
        status, page = self.get("/metrics")
        expect(status == 200, f"/metrics answers ({status})")
        return page


def samples(page):
    """{"name{labels}": value} of a page."""
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
            for line in page.splitlines() if line and not line.startswith("#")}


def scratch():
    return tempfile.TemporaryDirectory(prefix="triplepoint-live-")


INTERRUPT = signal.SIGINT
