# SPDX-License-Identifier: Apache-2.0
"""triplepoint top in a terminal (tmux): what is on the screen, keys, resizing, hosts, and the terminal afterwards."""
import os
import shlex
import stat
import subprocess
import uuid

from live import PATIENCE_S, PROGRAM, environment, expect, need, run, scratch, until

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

    def is_other_page(self):
        return self.tmux("display-message", "-p", "#{alternate_on}").strip() == "1"

    def close(self):
        self.tmux("kill-server")


def keep(name, text):
    if KEEP:
        with open(os.path.join(KEEP, name + ".txt"), "w") as file:
            file.write(text)


def top(*words):
    return " ".join(map(shlex.quote, [PROGRAM, "top", "--interval", "300ms", *words]))


def check_restored(screen):
    until(lambda: not screen.is_other_page(), "the first page is back")
    screen.type("stty -a")
    screen.sees("icanon", " echo ")
    expect("-icanon" not in screen.text(), "lines are lines again")
    screen.type("clear")


def check_screen(folder):
    screen = Screen(folder)
    screen.type(top())
    text = screen.sees("triplepoint top", "8 GPUs", "power cap 31%", "heat 12%", "1605", "hottest 86 C (gpu 6)", "slowest 1410 MHz (gpu 6)")
    expect(screen.is_other_page(), "top draws on a page of its own")
    expect("power" in text and "▁" not in text.splitlines()[0], "a picture")
    screen.sees("does not answer")  # GPU 7 is lost after some seconds
    keep("top-full", screen.text())
    expect(len([line for line in screen.text().splitlines() if "clock " in line]) >= 7, "a history line for each GPU:\n" + screen.text())

    screen.key("m", "m")
    screen.sees("mode: compact")
    until(lambda: not [line for line in screen.text().splitlines() if line.strip().startswith("power ")], "no histories when compact")
    keep("top-compact", screen.text())
    screen.key("s")
    rows = screen.sees("sort: power").splitlines()
    first = next(i for i, line in enumerate(rows) if "slowed by" in line) + 1
    expect(rows[first].split()[0] == "5", "the hungriest GPU is first:\n" + "\n".join(rows))
    screen.key("h")
    screen.sees("back and forth in time", "quit")
    screen.key("h")
    screen.key("Space")
    screen.sees("paused")
    screen.key("Space")

    screen.tmux("resize-window", "-x", "80", "-y", "12")
    until(lambda: "mode: compact" in screen.text() and max(map(len, screen.text().splitlines())) <= 80, "80 columns")
    screen.key("Down", "Down", "NPage", "NPage", "NPage")
    screen.sees("does not answer")  # the last GPU can be scrolled to
    screen.tmux("resize-window", "-x", "140", "-y", "40")

    screen.key("C-z")
    until(lambda: not screen.is_other_page(), "Ctrl-Z gives the terminal back")
    screen.type("fg")
    screen.sees("8 GPUs")
    screen.key("q")
    check_restored(screen)
    screen.close()


def check_ends(folder):
    """However top ends, the terminal is as it was."""
    screen = Screen(folder)
    for how in ("q", "C-c", "TERM", "HUP", "SEGV"):
        screen.type(top("-m", "compact"))
        screen.sees("8 GPUs")
        if how in ("q", "C-c"):
            screen.key(how)
        else:
            pid = screen.tmux("display-message", "-p", "#{pane_pid}").strip()
            children = subprocess.run(["ps", "-o", "pid=", "--ppid", pid], capture_output=True, text=True).stdout.split()
            expect(len(children) == 1, f"one child of the shell: {children}")
            subprocess.run(["kill", "-" + how, children[0]], check=True)
        check_restored(screen)
    screen.close()


def check_hosts(folder):
    """Two nodes by something that looks like ssh, one of which cannot be reached."""
    ssh = os.path.join(folder, "ssh")
    with open(ssh, "w") as file:
        file.write('#!/bin/sh\nfor word; do command=$word; done\n'
                   'case "$*" in *far*) echo "ssh: connect to host far: No route" >&2; exit 255;; esac\n'
                   f'set -- $command; shift; exec {shlex.quote(PROGRAM)} "$@"\n')
    os.chmod(ssh, os.stat(ssh).st_mode | stat.S_IXUSR)
    screen = Screen(folder, 150, 40)
    screen.type(f"PATH={shlex.quote(folder)}:$PATH " + top("--hosts", "ann@near,far", "-m", "compact"))
    screen.sees("2 nodes", "8 GPUs", "power cap 31%", "far: the connection ended: ssh: connect to host far: No route")
    keep("top-hosts", screen.text())
    screen.key("q")
    check_restored(screen)
    screen.close()


def check_once():
    once = run("top", "--once", "--sort", "clock", "-o", "4-6")
    expect(once.returncode == 0 and "\033" not in once.stdout, "one plain picture:\n" + once.stdout)
    rows = [line.split()[0] for line in once.stdout.splitlines() if "H200" in line]
    expect(rows == ["6", "5", "4"], f"the slowest first: {rows}")
    expect("quit" not in once.stdout, "no keys where there are none")
    pipe = run("top")
    expect(pipe.returncode == 1 and "--once" in pipe.stderr, "no terminal: " + pipe.stderr)
    for words in (["--interval", "1ms"], ["nothing.run"], ["--sort", "age"], ["x.run", "--hosts", "a"]):
        wrong = run("top", "--once", *words)
        expect(wrong.returncode in (1, 2) and wrong.stderr.startswith("triplepoint: "), f"{words}: {wrong.stderr}")


check_once()
with scratch() as place:
    check_screen(place)
    check_ends(place)
    check_hosts(place)
