#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bundles the front end into one HTML template, and writes it as C++ or as it is.

    build.py OUT.cpp | OUT.html [ESBUILD]
"""
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
GLOSSARY = HERE.parent / "docs/glossary.md"
STYLES = ("base", "charts", "tables", "filters", "timeline", "print")  # later ones win: what is printed comes last
LONGEST_LITERAL = 12000  # bytes; compilers need not take longer ones
CPP = """// Made by web/build.py; do not edit.
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {{

std::string_view page_template() {{
  static constexpr char text[] =
{};
  return std::string_view(text, sizeof(text) - 1);
}}

}}  // namespace triplepoint::report
"""


def plain(cell):
    """Markdown's text."""
    return re.sub(r"[`*]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cell.strip()))


def glossary():
    """Rows of the glossary's tables: term and meaning."""
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", GLOSSARY.read_text(encoding="utf-8"), re.M)
    return [[plain(term), plain(meaning)] for term, meaning in rows if term != "term"]


def script(esbuild):
    define = f"--define:GLOSSARY={json.dumps(glossary(), ensure_ascii=False)}"
    done = subprocess.run([esbuild, HERE / "src/main.ts", "--bundle", "--minify", "--target=es2020", "--format=iife", "--legal-comments=none",
                           "--charset=utf8", "--log-level=warning", define], stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().replace("</script", "<\\/script")


def template(esbuild):
    styles = "".join((HERE / f"src/{name}.css").read_text(encoding="utf-8") for name in STYLES)
    page = (HERE / "template.html").read_text(encoding="utf-8")
    return page.replace("/*STYLE*/", styles, 1).replace("/*SCRIPT*/", script(esbuild), 1)


def cpp_literals(text):
    content = text.encode()
    while content:
        end = min(LONGEST_LITERAL, len(content))
        while end < len(content) and content[end] & 0xC0 == 0x80:  # not inside a character
            end -= 1
        yield f'R"~~tpt~~({content[:end].decode()})~~tpt~~"'
        content = content[end:]


def main(output, esbuild="esbuild"):
    text = template(esbuild)
    pathlib.Path(output).write_text(text if output.endswith(".html") else CPP.format("\n".join(cpp_literals(text))), encoding="utf-8")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except subprocess.CalledProcessError as failed:  # esbuild has said why
        sys.exit(failed.returncode)
