#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the sources of the documentation site (mkdocs.yml): README and docs/ with formulas set, a page per command from the program's help,
per kind of input file from its schema, of the Python package from its stubs, and a gallery of pages that the program writes.

    make_site.py TRIPLEPOINT FOLDER      writes the sources; then: mkdocs build --strict
    make_site.py --check SITE            fails if a link of the built site leads nowhere, or a page loads anything from the network
"""
import html.parser
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

import command_help
import formulas
import page_pictures
import reference_pages
from repository import ROOT, report

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
AT_ROOT = ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
GALLERY = {
    "study": "A study: 193 jobs of the MICRO'25 paper. `triplepoint characterize paper/all -o study`",
    "run": "A run: GPT-3 175B on 32 H200, 5 minutes with a 38 °C inlet. `triplepoint report heat.run -o heat.html`",
    "plan": "The best layouts of a job. `triplepoint plan job.toml -o plans`",
    "place": "Stages placed by temperature. `triplepoint place job.toml -o placed`",
    "validation": "Predictions beside all measured jobs. `triplepoint validate validation/*/jobs.csv -o validation.html`",
}


def site_path(file):
    """Where a file of the tree is in the site; None if it is not there."""
    relative = file.relative_to(ROOT).as_posix()
    if relative == "README.md":
        return pathlib.PurePosixPath("index.md")
    if relative in AT_ROOT:
        return pathlib.PurePosixPath(relative.lower())
    return pathlib.PurePosixPath(relative[5:]) if relative.startswith("docs/") else None


def link_to(source, here, found):
    """The link as the site needs it; text alone where the target is not part of the site."""
    picture, text, target = found.groups()
    path, _, anchor = target.partition("#")
    if not path or re.match(r"[a-z]+:", target):
        return found[0]
    there = site_path((source.parent / path).resolve())
    if there is None or not (ROOT / "docs" / there).exists() and there.suffix != ".md":
        return text
    up = "../" * len(here.parent.parts)
    return f"{picture}[{text}]({up}{there}{'#' + anchor if anchor else ''})"


def with_formulas(fence):
    language, text = fence.groups()
    return formulas.block_html(text) if language == "text" and formulas.is_formula_block(text) else fence[0]


def site_page(source, here):
    """A page's text: links of the site, formulas in models, an empty line before lists, as the site's generator needs it."""
    parts = re.split(r"(^```.*?^```$)", source.read_text(), flags=re.M | re.S)
    for at in range(0, len(parts), 2):
        parts[at] = LINK.sub(lambda found: link_to(source, here, found), parts[at])
        parts[at] = re.sub(r"^((?![*-] |\d+\. |\s|\|).+)\n(?=(?:[*-]|\d+\.) )", r"\1\n\n", parts[at], flags=re.M)
    text = "".join(parts)
    return FENCE.sub(with_formulas, text) if here.parts[0] == "models" else text


def copy_docs(folder):
    sources = [ROOT / "README.md", *(ROOT / file for file in AT_ROOT), *sorted((ROOT / "docs").rglob("*.md"))]
    for source in sources:
        here = site_path(source)
        (folder / here).parent.mkdir(parents=True, exist_ok=True)
        (folder / here).write_text(site_page(source, here))
    shutil.copytree(ROOT / "docs/images", folder / "images", dirs_exist_ok=True)
    shutil.copy(ROOT / "LICENSE", folder / "LICENSE")


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;")


def command_page(program, command):
    help_ = command_help.parse(command_help.help_text(program, command))
    lines = [f"# {command}", "", cell(help_.about), "", "```sh", help_.usage, "```", ""]
    for is_code, text in help_.intro:
        lines += ["```sh", *(line.removeprefix("  ") for line in text), "```", ""] if is_code else [cell(" ".join(text)), ""]
    for title, options in help_.sections:
        lines += [f"## {title}", "", "| flag | meaning |", "|---|---|"]
        lines += [f"| `{option.term}` | {cell(option.text)} |" for option in options] + [""]
    return "\n".join(lines)


def write_commands(program, folder):
    (folder / "commands").mkdir(exist_ok=True)
    overview = ["# Commands", "", "Made from `triplepoint COMMAND --help`; [command line](../cli.md) has what they share.", ""]
    for title, commands in command_help.command_groups(program):
        overview += [f"## {title}", "", "| command | answers |", "|---|---|"]
        for command, about in commands:
            overview.append(f"| [`{command}`]({command}.md) | {cell(about)} |")
            (folder / "commands" / f"{command}.md").write_text(command_page(program, command))
        overview.append("")
    (folder / "commands/index.md").write_text("\n".join(overview))


def write_gallery(program, folder):
    lines = ["# Gallery", "", "Pages as the program writes them: one file each, readable offline. A picture opens its page.", ""]
    for name, text in GALLERY.items():
        _, commands, page = page_pictures.PAGES[name]
        with tempfile.TemporaryDirectory() as work:
            for command in commands:
                subprocess.run([program, *command], cwd=work, check=True, stdout=subprocess.DEVNULL)
            written = pathlib.Path(work) / page
            shutil.copytree(written.parent, folder / "gallery" / name, ignore=shutil.ignore_patterns("*.run"))
        lines += [f"## {name.capitalize()}", "", text, "", f"[![Page: {name}](../images/{name}.png)]({name}/{written.name})", ""]
    (folder / "gallery/index.md").write_text("\n".join(lines))


class Links(html.parser.HTMLParser):
    """What a page links to, what it loads, and its anchors."""

    def __init__(self):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], set()

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found.get("id"), found.get("name")}
        if tag in ("a", "area") and found.get("href"):
            self.links.append(found["href"])
        if tag in ("img", "script") and found.get("src"):
            self.loads.append(found["src"])
        if tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload") and found.get("href"):
            self.loads.append(found["href"])


def links_of(page, known):
    if page not in known:
        known[page] = Links()
        known[page].feed(page.read_text())
    return known[page]


def target_of(page, site, address):
    path = urllib.parse.unquote(urllib.parse.urlsplit(address).path)
    target = (page.parent / path if not path.startswith("/") else site / path[1:]) if path else page
    return target / "index.html" if target.is_dir() else target


def site_problems(site):
    known = {}
    for page in sorted(site.rglob("*.html")):
        if "gallery" in page.relative_to(site).parts[:1] and page.name != "index.html" or page.name == "404.html":
            continue  # the program's own pages have their own tests
        found = links_of(page, known)
        for address in found.loads:
            if re.match(r"(?:[a-z]+:)?//", address):
                yield f"{page.relative_to(site)}: loads {address}"
        for address in found.links + found.loads:
            if re.match(r"[a-z]+:|//", address):
                continue
            target, anchor = target_of(page, site, address), urllib.parse.unquote(urllib.parse.urlsplit(address).fragment)
            if not target.exists():
                yield f"{page.relative_to(site)}: there is no {address}"
            elif anchor and target.suffix == ".html" and anchor not in links_of(target, known).anchors:
                yield f"{page.relative_to(site)}: {address} has no such heading"


def main(arguments):
    if arguments[0] == "--check":
        return report(sorted(set(site_problems(pathlib.Path(arguments[1]).resolve()))))
    program, folder = str(pathlib.Path(arguments[0]).resolve()), pathlib.Path(arguments[1])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    copy_docs(folder)
    write_commands(program, folder)
    reference_pages.write_files(program, folder)
    reference_pages.write_python(folder)
    write_gallery(program, folder)
    (folder / "site.css").write_text((ROOT / "packaging/site.css").read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
