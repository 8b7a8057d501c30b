#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails where comments, messages, documents or identifiers use a word that has a clearer one; the lists are short on purpose."""
import re
import sys

from repository import files, name, report

# Pattern (any case), and what to write instead.
WORDS = [
    (r"\bplay(?:s|ed|ing)?\b", "simulate, run or recompute"),
    (r"\bso many\b(?! that\b)", "the number, by its name"),
    (r"\bof (?:its|their) own\b", "its own X, or a separate X"),
    (r"\b(?:nobody|whoever|somebody)\b|(?<![-_])\b(?:every|any)body\b", "the subject: no rank, each process, the caller"),
    (r"\bwhat (?:it|they|that|this) (?:is|are) worth\b|\b(?:is|are) worth it\b", "the gain or the cost"),
    (r"(?-i:\bSay) (?:how|what|why|where|who)\b", "print, list or set, with the object"),
]
# Identifiers of C++.
NAMES = [
    (r"\b[Pp]lay(?:s|ed|er|_\w+)?\b", "simulate, run, schedule or replay"),
    (r"\bsay_\w+", "add, note or print, with the object"),
    (r"\b(?:\w+_)?told_\w*", "inferred, stated or reported"),
    (r"\b(?:\w+_)?kept_\w*", "stored, held or open"),
    (r"\b(?:\w+_)?pace(?:_\w*)?\b|\b(?:\w*[a-z])?Pace\b", "interval, rate or length; only the slowest rank sets the pace"),
]
NAME_RULES = [(re.compile(pattern), instead) for pattern, instead in NAMES]
RULES = [(re.compile(pattern.replace(" ", r"\s+"), re.I), instead)
         for pattern, instead in WORDS]

# Comments and strings of C++; strings that follow each other are one text, and so are lines of comments.
TEXT = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*'
                  r'|//[^\n]*(?:\n[ \t]*//[^\n]*)*|/\*.*?\*/', re.S)
SEAM = re.compile(r'"\s*"|\n[ \t]*///?')
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.M | re.S)


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def texts(path):
    """(offset, text) of all that people read in a file; text keeps its length."""
    content = path.read_text()
    if path.suffix == ".md":
        yield content, 0, CODE.sub(blank, content)
        return
    for match in TEXT.finditer(content):
        if content[:match.start()].endswith("#include "):
            continue
        yield content, match.start(), SEAM.sub(blank, match[0])


def problems_of(path):
    for content, begin, text in texts(path):
        for rule, instead in RULES:
            for match in rule.finditer(text):
                line = content.count("\n", 0, begin + match.start()) + 1
                word = " ".join(match[0].split())
                yield f'{name(path)}:{line}: "{word}" is vague here; write {instead}'


def names_of(path):
    """Identifiers: what is left without comments and strings."""
    content = path.read_text()
    code = TEXT.sub(blank, content)
    for rule, instead in NAME_RULES:
        for match in rule.finditer(code):
            yield f"{name(path)}:{code.count(chr(10), 0, match.start()) + 1}: the name {match[0]} is vague; write {instead}"


problems = []
for suffix in (".h", ".cpp", ".cu", ".md"):
    for path in files(suffix):
        problems += problems_of(path)
        if suffix != ".md":
            problems += names_of(path)
sys.exit(report(problems))
