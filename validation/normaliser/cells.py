# SPDX-License-Identifier: Apache-2.0
"""One row of a table as its source prints it, and what its words say."""
import math
import re

NOTHING = {"", "null", "none", "nan", "-", "--", "n/a", "na", "?", "auto", "default", "unknown", "unstated", "varies", "various", "best", "not stated"}
BINARY, DECIMAL = {"k": 1 << 10, "m": 1 << 20}, {"k": 1e3, "m": 1e6}  # of sizes, of rates
MOST = 10**15


class Unreadable(Exception):
    """Why a row cannot become a job."""


def is_nothing(text):
    return text.strip().lower() in NOTHING


def number(text, title, scales=DECIMAL):
    """A number as tables write it: "16,384", "~0.35", "8k", "25.3 GB"; an expression of that kind or nothing."""
    plain = text.strip().replace(",", "").lstrip("~≈<> ").rstrip("* ")
    found = re.fullmatch(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([kKM]?)\s*(?:GB|GiB|%|s|x)?", plain)
    if not found:
        raise Unreadable(f"{title} is '{text.strip()[:60]}' (a number is expected); correct the row")
    value = float(found[1]) * scales.get(found[2].lower(), 1)
    if not math.isfinite(value) or not 0 <= value < MOST:
        raise Unreadable(f"{title} is {text.strip()[:60]} (a positive number is expected); correct the row")
    return value


class Row:
    """Cells by the title of their column; a column that the table does not have is as empty as a cell with nothing in it."""

    LONGEST = 1000  # a cell, not a book
    WORDS = ("framework", "precision", "dp_sharding", "recompute", "extra")  # settings; what `notes` say of them sets nothing
    TASKS = (("pretrain", r"pre.?train"), ("lora", r"\bq?lora\b|\bpeft\b"), ("sft", r"\bsft\b|fine.?tun"))

    def __init__(self, cells, line):
        self.cells = {str(key).strip(): (value or "").strip()[:self.LONGEST] for key, value in cells.items() if key is not None and not isinstance(value, list)}
        self.id = self.cells.get("row_id") or f"line {line}"
        self.words = "; ".join(filter(None, map(self.text, self.WORDS)))

    def text(self, title):
        return self.cells.get(title, "")

    def word(self, title):
        """What the cell says, or nothing where it says nothing ("none" is something here)."""
        text = self.text(title)
        return "" if text.lower() in NOTHING - {"none"} else text

    def amount(self, title, scales=DECIMAL):
        """A positive number, or nothing: tables write 0 where a thing does not apply."""
        text = self.text(title)
        if is_nothing(text):
            return None
        return number(text, title, scales) or None

    def count(self, title):
        value = self.amount(title, BINARY)
        if value is not None and value != int(value):
            raise Unreadable(f"{title} is {self.text(title)} (a whole number is expected); correct the row")
        return None if value is None else int(value)

    @property
    def task(self):
        """What is trained: "pretrain", "lora" or "sft", whatever else the workload says."""
        return next((task for task, pattern in self.TASKS if re.search(pattern, self.text("workload"), re.I)), "pretrain")

    def says(self, pattern):
        return re.search(pattern, self.words, re.I) is not None

    @property
    def date(self):
        """Year and, where it is said, month: "2023-10"."""
        found = re.search(r"\b(20\d\d)(-[01]\d)?", self.text("date"))
        return found[0] if found else ""

    def is_before(self, month):
        return bool(self.date) and self.date < month[:len(self.date)]

    def is_since(self, month):
        return bool(self.date) and self.date >= month[:len(self.date)]


NO_BEFORE = re.compile(r"(\b(no|not|non|without|w/o|disable[sd]?|disabling|off|never|minus|turn(ed|ing)? off|removing)\b|-no-?)[\s:=_-]*(?:using |use of |the |any )?$", re.I)
NO_AFTER = re.compile(r"^[\w.-]{0,12}?\s*(?:[=:]\s*|\()?\s*\b(off|0|false|no|none|n|disabled|not used|not enabled)\b(?!\.\d)", re.I)
UNKNOWN_AFTER = re.compile(r"^\s*[=:]?\s*(unknown|unstated|not (stated|said|given|known)|\?)", re.I)


def switch(text, pattern):
    """Does the text turn this on (True) or off (False)? Nothing where it does not speak of it; of several mentions the last counts."""
    said = None
    for found in re.finditer(pattern, text, re.I):
        before, after = text[max(0, found.start() - 28):found.start()], text[found.end():found.end() + 24]
        if UNKNOWN_AFTER.match(after):
            continue
        off = NO_BEFORE.search(before) is not None or NO_AFTER.match(after) is not None
        said = not off
    return said


def number_after(text, keys):
    """The whole number after one of these words: "grad_accum=4", "micro batches: 16"."""
    found = re.search(rf"(?<![a-z])(?:{keys})\s*(?:[=:(]|of|is)?\s*(\d+)(?![\d.]*\d*[-–/]\d)", text, re.I)
    return int(found[1]) if found else None
