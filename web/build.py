#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bundles the front end into one HTML template, and writes it as C++ or as it is.

    build.py OUT.cpp | OUT.html [ESBUILD]
    build.py explorer FOLDER CORE.wasm DATA.pack [ESBUILD [NODE]]

The explorer's folder gets index.html with the files beside it, for any web server, and explore.html, which holds them itself.
"""
import base64
import gzip
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
YAML = "/usr/share/nodejs/yaml/browser/index.js"  # Debian's; npm's of the same version has its types
GLOSSARY = HERE.parent / "docs/glossary.md"
EXPLORER_STYLES = ("base", "charts", "tables", "explorer")
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


def script(esbuild, entry, define, form="iife"):
    done = subprocess.run([esbuild, HERE / f"src/{entry}.ts", "--bundle", "--minify", "--target=es2020", f"--format={form}", "--legal-comments=none",
                           f"--alias:yaml={YAML}", "--charset=utf8", "--log-level=warning", define], stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().replace("</script", "<\\/script")


def filled(name, styles, text):
    sheet = "".join((HERE / f"src/{style}.css").read_text(encoding="utf-8") for style in styles)
    page = (HERE / name).read_text(encoding="utf-8")
    return page.replace("/*STYLE*/", sheet, 1).replace("/*SCRIPT*/", text, 1)


def template(esbuild):
    define = f"--define:GLOSSARY={json.dumps(glossary(), ensure_ascii=False)}"
    return filled("template.html", STYLES, script(esbuild, "main", define))


ASK_FLAGS = """
import { readFileSync } from "node:fs";
const core = (await import(process.argv[1] + "/core.mjs")).startCore(await WebAssembly.compile(readFileSync(process.argv[1] + "/core.wasm")));
core.mount(new Uint8Array(readFileSync(process.argv[1] + "/data.pack")));
console.log(JSON.stringify(core.call("flags", {})));
"""


def flag_tables(folder, node):
    """The program's table of flags, as its core tells it: the page has its form before the core runs."""
    asked = subprocess.run([node, "--input-type=module", "-e", ASK_FLAGS, folder.resolve()], stdout=subprocess.PIPE, check=True)
    return asked.stdout.decode().strip().replace("<", "\\u003c")


def explorer(folder, core, pack, esbuild="esbuild", node="node"):
    worker = script(esbuild, "explorer_worker", "--define:NONE=0")
    page = filled("explorer.html", EXPLORER_STYLES, script(esbuild, "explorer", f"--define:WORKER={json.dumps(worker)}"))
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "core.mjs").write_text(script(esbuild, "explorer_core", "--define:NONE=0", "esm"), encoding="utf-8")  # for node
    files = ""
    for name, element, content in (("core.wasm", "core", pathlib.Path(core).read_bytes()), ("data.pack", "pack", pathlib.Path(pack).read_bytes())):
        (folder / name).write_bytes(content)
        packed = base64.b64encode(gzip.compress(content, 9, mtime=0)).decode()
        files += f'<script type="text/plain" id="{element}">{packed}</script>\n'
    page = page.replace("{{tables}}", flag_tables(folder, node), 1)
    for name, connect, inside in (("index.html", "'self'", ""), ("explore.html", "'none'", files)):
        text = page.replace("{{connect}}", connect, 1).replace("{{files}}", inside, 1)
        (folder / name).write_text(text, encoding="utf-8")


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
        explorer(*sys.argv[2:]) if sys.argv[1] == "explorer" else main(*sys.argv[1:])
    except subprocess.CalledProcessError as failed:  # esbuild has said why
        sys.exit(failed.returncode)
