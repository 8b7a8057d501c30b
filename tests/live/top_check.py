# SPDX-License-Identifier: Apache-2.0
"""triplepoint top in a terminal (tmux): what is on the screen, resizing, modes, hosts, and the terminal afterwards."""
import os
import shlex
import subprocess
import uuid

from live import PATIENCE_S, PROGRAM, Exporter, environment, expect, need, run, scratch, until

tmux = need("tmux")
KEEP = os.environ.get("TPT_KEEP_SCREENS")  # a folder: the screens are written there


class Screen:
    """A terminal of its own with a shell in it."""

    def __init__(self, folder, columns=140, rows=40):
        self.socket = os.path.join(folder, "tmux-" + uuid.uuid4().hex[:8])
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), "sh")
        self.tmux("set-option", "-g", "remain-on-exit", "on")
        until(lambda: self.text().strip(), "a prompt")

    def tmux(self, *words):
        return subprocess.run([tmux, "-S", self.socket, *words], env=environment(TERM="xterm-256color"), capture_output=True,
                              text=True, timeout=PATIENCE_S).stdout

    def text(self):
        return self.tmux("capture-pane", "-p")

    def type(self, line):
        self.tmux("send-keys", "-l", line)
        self.tmux("send-keys", "Enter")

    def key(self, *names):
        self.tmux("send-keys", *names)

    def sees(self, *words):
        try:
            until(lambda: all(word in self.text() for word in words), f"{words} on the screen")
        except SystemExit:
            print(self.text())
            raise
        return self.text()

    def close(self):
        self.tmux("kill-server")


def keep(name, text):
    if KEEP:
        with open(os.path.join(KEEP, name + ".txt"), "w") as file:
            file.write(text)


def top(*words):
    return " ".join(map(shlex.quote, [PROGRAM, "top", "--interval", "300ms", *words]))


def end(screen):
    screen.key("C-c")
    screen.type("clear; echo $((123 * 1001))")
    screen.sees("123123")
    screen.type("clear")


def history_lines(screen):
    return [line for line in screen.text().splitlines() if "clock " in line]


def check_screen(folder):
    screen = Screen(folder)
    screen.type(top())
    text = screen.sees("triplepoint top", "8 GPUs", "power cap 31%", "heat 12%", "1605", "hottest 86 C (gpu 6)", "slowest 1410 MHz (gpu 6)")
    expect("power" in text and "▁" not in text.splitlines()[0], "a picture")
    screen.sees("does not answer")  # GPU 7 is lost after some seconds
    keep("top-full", screen.text())
    expect(len(history_lines(screen)) >= 7, "a history line for each GPU:\n" + screen.text())

    screen.tmux("resize-window", "-x", "80", "-y", "12")
    until(lambda: max(map(len, screen.text().splitlines())) <= 80 and not history_lines(screen), "80 columns, no histories in 12 rows")
    screen.tmux("resize-window", "-x", "140", "-y", "40")
    end(screen)

    screen.type(top("-m", "compact", "-s", "power"))
    rows = screen.sees("8 GPUs").splitlines()
    first = next(i for i, line in enumerate(rows) if "slowed by" in line) + 1
    expect(rows[first].split()[0] == "5", "the hungriest GPU is first:\n" + "\n".join(rows))
    expect(not history_lines(screen), "no histories when compact")
    keep("top-compact", screen.text())
    end(screen)
    screen.close()


def check_hosts(folder):
    """Two nodes by their exporters, one of which cannot be reached."""
    with Exporter() as near:
        screen = Screen(folder, 150, 40)
        screen.type(top("--hosts", f"127.0.0.1:{near.port},127.0.0.1:9", "-m", "compact"))
        screen.sees("2 nodes", "8 GPUs", "power cap 31%", "127.0.0.1:9")
        keep("top-hosts", screen.text())
        end(screen)
        screen.close()


def check_once():
    once = run("top", "--once", "--sort", "clock", "-o", "4-6")
    expect(once.returncode == 0 and "\033" not in once.stdout, "one plain picture:\n" + once.stdout)
    rows = [line.split()[0] for line in once.stdout.splitlines() if "H200" in line]
    expect(rows == ["6", "5", "4"], f"the slowest first: {rows}")
    pipe = run("top")
    expect(pipe.returncode == 1 and "--once" in pipe.stderr, "no terminal: " + pipe.stderr)
    for words in (["--interval", "1ms"], ["--sort", "age"], ["--hosts", "a"]):
        wrong = run("top", "--once", *words)
        expect(wrong.returncode in (1, 2) and wrong.stderr.startswith("triplepoint: "), f"{words}: {wrong.stderr}")


check_once()
with scratch() as place:
    check_screen(place)
    check_hosts(place)
