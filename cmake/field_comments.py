#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what the comments of struct members in headers say, as C++: the descriptions of `triplepoint schema`.

    field_comments.py OUT HEADER...

The comment of a member stands behind it and may go on in the lines below, or in the lines above it.
"""
import pathlib
import re
import sys

STRUCT = re.compile(r"^struct (\w+) \{$")


def split_line(line):
    code, slashes, comment = line.partition("//")
    return code.rstrip(), comment.strip("/ ") if slashes else None


def names_of(declaration):
    """The members of "double in_context = 1, share = 1;"; none of a function."""
    code = re.sub(r"\{[^{}]*\}", "", declaration)
    code = re.sub(r"=\s*[^,;]+", "", code)
    if "(" in code or not code.strip().endswith(";"):
        return []
    while "<" in code:
        code = re.sub(r"<[^<>]*>", "", code)
    words = code.strip().rstrip(";").split(",")
    return [re.split(r"[\s&*]+", word.strip())[-1] for word in words]


class Struct:
    """Collects the comments of one struct's members, line by line."""

    def __init__(self):
        self.found = []  # (name, comment)
        self.above, self.behind, self.code = [], [], ""
        self.last = []  # names of the declaration before, whose comment may go on in the next line

    def take(self, line):
        code, comment = split_line(line)
        if code:
            self.take_code(code, comment)
        elif comment is None:
            self.above, self.last = [], []
        elif self.last and line.startswith("   "):
            self.found = [(name, f"{text} {comment}" if name in self.last else text) for name, text in self.found]
        elif self.code:
            self.behind.append(comment)
        else:
            self.above, self.last = ([] if self.last else self.above) + [comment], []

    def take_code(self, code, comment):
        self.code += code + " "
        self.behind += [comment] if comment else []
        if self.code.count("{") != self.code.count("}") or not code.endswith((";", "}")):
            return
        text = " ".join(self.behind or self.above)
        names = names_of(self.code) if text else []
        self.found += [(name, text) for name in names]
        self.last = names if self.behind else []
        self.above, self.behind, self.code = [], [], ""


def sentence(text):
    return re.sub(r"\s+", " ", text).strip()


def about(lines):
    """The first paragraph of the comment that ends here."""
    text = []
    for line in reversed(lines):
        if not line.startswith("///"):
            break
        text.insert(0, line.removeprefix("///").strip())
    return " ".join(text[:text.index("")] if "" in text else text)


def structs(text):
    """(struct, [(member, comment)]); the comment of the struct itself has no member."""
    lines = text.splitlines()
    for begin, line in enumerate(lines):
        found = STRUCT.match(line)
        if not found:
            continue
        struct = Struct()
        for inside in lines[begin + 1:lines.index("};", begin)]:
            struct.take(inside)
        above = about(lines[:begin])
        yield found[1], ([("", above)] if above else []) + struct.found


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main(out, headers):
    parts = ["// Made by cmake/field_comments.py from the comments of headers.\n"]
    for header in headers:
        for name, fields in structs(pathlib.Path(header).read_text()):
            if fields:
                parts.append(f"template <>\ninline constexpr auto comments_of<{name}> = std::to_array<FieldComment>({{\n")
                parts += [f"    {{{quoted(field)}, {quoted(sentence(text))}}},\n" for field, text in fields]
                parts.append("});\n")
    pathlib.Path(out).write_text("".join(parts))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
