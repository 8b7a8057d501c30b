#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Group source files into unity translation units in which no two files define the same local name.

Prints one line "<group> <file>" for every file given. A unity build compiles several files as one translation unit, which
parses the common headers once. Names in anonymous namespaces, file-local `static` functions and using-declarations would then
collide, so files that share such a name go to different groups, and a file whose local name a header beside it declares as well is
compiled alone. The search for names is textual and errs on the side of too many.
"""
import pathlib
import re
import sys

COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.S)
TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.']*|::|[{}();=<>,]|\S")
KEYWORDS = set("if for while switch return sizeof catch operator decltype static_assert namespace using struct class enum "
               "const constexpr static inline auto template typename noexcept alignas requires else do "
               "TEST_CASE".split())  # a macro that names its function by a counter


def local_names(text, header=False):
    """Names that are visible in this file only, with None; those that using-declarations bring in, with what they stand for.

    Of a header: all names declared in its namespaces."""
    text = COMMENT_OR_STRING.sub(lambda match: '""' if match[0][0] not in "/" else " ", text)
    text = re.sub(r"^\s*#.*?(?<!\\)$", "", text, flags=re.M)
    names, scopes, previous, parentheses = {}, [], [], 0
    for token in TOKEN.findall(text):
        if token == "(":
            parentheses += 1
        elif token == ")":
            parentheses = max(0, parentheses - 1)
        # Only what stands directly in namespaces counts; `scopes` holds what opened every brace.
        if parentheses <= 1 and all(scope != "other" for scope in scopes):
            local = header or "anonymous" in scopes or (previous and "static" in previous)
            if local and token in "(={;" and parentheses == (token == "(") and (token == "=" or "=" not in previous):
                words = [word for word in previous if re.match(r"[A-Za-z_]\w*$", word)]
                is_type = any(kind in previous for kind in ("struct", "class", "enum", "using", "namespace"))
                if words and not is_type and (previous[-1] == words[-1] or (token == "=" and "(" not in previous)):
                    names[words[-1]] = None
                for before, kind, word in zip(["", *previous], previous, previous[1:]):
                    if kind in ("struct", "class", "enum") and before not in ("<", ",") and len(word) > 1:  # not a template parameter
                        names[word] = None
            if token == ";" and previous[:1] == ["using"] and "namespace" not in previous[:2]:
                names[previous[1] if "=" in previous else previous[-1]] = "".join(previous[1:])
        if token == "{":
            if parentheses == 0 and "namespace" in previous:
                scopes.append("anonymous" if previous[-1] == "namespace" else "namespace")
            else:
                scopes.append("other")
            previous = []
        elif token == "}":
            if scopes:
                scopes.pop()
            previous = []
        elif token == ";" and parentheses == 0:
            previous = []
        else:
            previous.append(token)
    return {name: target for name, target in names.items() if name not in KEYWORDS}


def agree(names, others):
    return all(name not in others or (target and others[name] == target) for name, target in names.items())


def hides(name, target, declared):
    """True if a file's local name is another thing than what a header beside it declares: `using spec::Collective` in metrics."""
    here = pathlib.Path.cwd()
    return name in declared and (target is None or target.split("::")[0] in {module.name for module in here.parent.iterdir()} - {here.name})


def groups_of(files, size):
    """Fill groups in the order of the files: each file goes to the first group that has room and none of its names."""
    groups, declared = [], set()
    headers = {beside for file in files for beside in pathlib.Path(file).parent.glob("*.h")}
    for header in sorted(header for header in headers if not header.stem.endswith("_testing") or any("_test" in f for f in files)):
        declared |= set(local_names(header.read_text(encoding="utf-8"), header=True))
    for file in files:
        with open(file, encoding="utf-8") as source:
            names = local_names(source.read())
        alone = any(hides(name, target, declared) for name, target in names.items())
        for group in groups:
            if not alone and len(group["files"]) < group["size"] and agree(names, group["names"]):
                break
        else:
            group = {"files": [], "names": {}, "size": 1 if alone else size}
            groups.append(group)
        group["files"].append(file)
        group["names"].update(names)
    return groups


if __name__ == "__main__":
    for number, found in enumerate(groups_of(sys.argv[2:], int(sys.argv[1]))):
        for path in found["files"]:
            print(f"{number} {path}")
