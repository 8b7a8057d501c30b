# SPDX-License-Identifier: Apache-2.0
"""triplepoint snapshot --every in a terminal (tmux): what is on the screen, resizing, and the terminal afterwards."""
import os
import shlex
import subprocess
import uuid

from live import PATIENCE_S, PROGRAM, environment, need, scratch, until

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


def live(*words):
    return " ".join(map(shlex.quote, [PROGRAM, "snapshot", "--every", "300ms", *words]))


def end(screen):
    screen.key("C-c")
    screen.type("clear; echo $((123 * 1001))")
    screen.sees("123123")
    screen.type("clear")


def check_screen(folder):
    screen = Screen(folder)
    screen.type(live())
    screen.sees("triplepoint snapshot", "power cap 31%", "heat 12%", "1605")
    screen.sees("does not answer")  # GPU 7 is lost after some seconds
    keep("screen", screen.text())
    screen.tmux("resize-window", "-x", "100", "-y", "12")
    until(lambda: "triplepoint snapshot" in screen.text().splitlines()[0] and "no room for" not in screen.text(), "the first lines in 12 rows")
    screen.tmux("resize-window", "-x", "100", "-y", "40")
    screen.sees("no room for")
    end(screen)
    screen.close()


with scratch() as place:
    check_screen(place)
