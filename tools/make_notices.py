#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the third-party notices (THIRD_PARTY.txt) and the SPDX list of the programs from packaging/components.toml.

    make_notices.py --check                  fails if the list lacks a package of the Makefile, or a package the web front end imports
    make_notices.py FOLDER VERSION FILES     fails also if one of FILES (programs, libraries) names a library that the list lacks
    make_notices.py --explorer FOLDER        the notices of the explorer's page alone
"""
import json
import pathlib
import re
import subprocess
import sys
import tomllib

from repository import ROOT, files, name, report

LIST = ROOT / "packaging/components.toml"
# Installed with every compiler: the C and C++ libraries and the loader.
SYSTEM = re.compile(r"^(?:lib(?:c|m|stdc\+\+|gcc_s|dl|pthread|rt)\.so|ld-linux)")
IMPORT = re.compile(r"""^\s*(?:import|export)\b(?:[^;"']*?\bfrom)?\s*["']([^."'][^"']*)["']""", re.M)
NAMESPACE = "https://spdx.org/spdxdocs/triplepoint-"


def components():
    return tomllib.loads(LIST.read_text())


def makefile_packages():
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    lists = re.findall(r"^PACKAGES(?:_PYTHON)?\s*:=(.*)$", text, re.M)
    return {word for words in lists for word in words.split() if word.endswith("-dev")}


def list_problems(content):
    listed = {component["package"] for component in content["component"]}
    for package in sorted(makefile_packages() - listed):
        yield f"{name(LIST)}: {package} of the Makefile is missing; add name, license and use"
    # Others are loaded by one of the Makefile's, and stand in the archive and in the wheel beside it.
    loaded = {component["package"] for component in content["component"] if component["use"] != "explorer"}
    for package in sorted(name for name in loaded - makefile_packages() if name.endswith("-dev")):
        yield f"{name(LIST)}: {package} is not in the Makefile's PACKAGES and PACKAGES_PYTHON; remove it here or add it there"
    for source in files(".ts", ".mjs"):
        if name(source).startswith("web/src/"):
            for package in set(IMPORT.findall(source.read_text())) - set(content["pages"]):
                yield f"{name(source)}: imports {package}, which {name(LIST)} does not list under pages"


def needed(file):
    said = subprocess.run(["objdump", "-p", file], capture_output=True, text=True, check=True).stdout
    return {library for library in re.findall(r"NEEDED\s+(\S+)", said) if not SYSTEM.match(library)}


def library_problems(content, programs):
    sonames = tuple(component["soname"] for component in content["component"] if "soname" in component)
    for program in programs:
        for library in sorted(needed(program)):
            if not library.startswith(sonames):
                yield f"{pathlib.Path(program).name} loads {library}, which {name(LIST)} lacks; add it with its soname"


def installed_version(package):
    found = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 else ""


def copyright_text(package):
    file = pathlib.Path("/usr/share/doc") / package / "copyright"
    return file.read_text(errors="replace") if file.exists() else ""


def of_programs(content):
    return [component for component in content["component"] if component["use"] != "explorer"]


def of_explorer(content):
    return [component for component in content["component"] if component["use"] == "explorer" or component.get("explorer")]


def notices(title, components_):
    parts = [f"{title} the following software of others. The texts are those of Debian's packages."]
    for component in components_:
        heading = f"{component['name']} ({component['license']}; {component['use']}; {component['package']})"
        parts.append(f"{'=' * 100}\n{heading}\n{'=' * 100}\n{copyright_text(component['package'])}")
    return "\n\n".join(parts) + "\n"


def spdx_id(text):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", text)


def spdx_package(title, version, license_):
    return {"SPDXID": spdx_id(title), "name": title, "versionInfo": version or "NOASSERTION", "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False, "licenseConcluded": license_, "licenseDeclared": license_, "copyrightText": "NOASSERTION"}


def relation(component):
    kind = "DYNAMIC_LINK" if component["use"] == "library" else "CONTAINS"
    return {"spdxElementId": spdx_id("triplepoint"), "relationshipType": kind, "relatedSpdxElement": spdx_id(component["name"])}


def created():
    """The commit's time, so that the same commit gives the same file."""
    found = subprocess.run(["git", "log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ"], cwd=ROOT, env={"TZ": "UTC", "PATH": "/usr/bin:/bin"},
                           capture_output=True, text=True)
    return found.stdout.strip() or "1970-01-01T00:00:00Z"


def spdx(content, version):
    main = spdx_package("triplepoint", version, "Apache-2.0")
    others = [spdx_package(c["name"], installed_version(c["package"]), c["license"]) for c in of_programs(content)]
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"triplepoint-{version}",
            "documentNamespace": NAMESPACE + version, "creationInfo": {"created": created(), "creators": ["Tool: make_notices.py"]},
            "packages": [main, *others],
            "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": main["SPDXID"]},
                              *map(relation, of_programs(content))]}


def write(folder, version, content):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "triplepoint.spdx.json").write_text(json.dumps(spdx(content, version), indent=1) + "\n")
    (folder / "THIRD_PARTY.txt").write_text(notices("Triplepoint contains or loads", of_programs(content)))


def main(arguments):
    content = components()
    problems = list(list_problems(content))
    if arguments[0] == "--explorer":
        (pathlib.Path(arguments[1]) / "THIRD_PARTY.txt").write_text(notices("The explorer contains", of_explorer(content)))
    elif arguments != ["--check"]:
        folder, version, *programs = arguments
        problems += library_problems(content, programs)
        if not problems:
            write(pathlib.Path(folder), version, content)
    return report(problems)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
