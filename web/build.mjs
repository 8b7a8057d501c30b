// SPDX-License-Identifier: Apache-2.0
// Bundles the front end into one HTML template and writes it as C++, or as it is: node build.mjs OUT.cpp | OUT.html
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const output = process.argv[2];
if (!output) throw new Error("usage: node build.mjs OUT.cpp | OUT.html");

/** Rows of the glossary's tables: term and meaning, without Markdown. */
function glossary() {
  const plain = (cell) => cell.trim().replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/[`*]/g, "");
  return readFileSync(join(here, "../docs/glossary.md"), "utf8").split("\n")
    .map((line) => line.match(/^\| (.+?) \| (.+) \|$/)).filter((row) => row && row[1] !== "term")
    .map(([, term, meaning]) => [plain(term), plain(meaning)]);
}

/** The script, or none when the packages were never installed. */
async function bundledScript() {
  let esbuild;
  try {
    esbuild = await import("esbuild");
  } catch {
    console.error("web: esbuild is not installed (run npm ci in web/); pages get no timeline and no filters");
    return "document.documentElement.dataset.ready = 'without script';";
  }
  const result = await esbuild.build({
    entryPoints: [join(here, "src/main.ts")],
    bundle: true, minify: true, write: false, target: "es2020", format: "iife", legalComments: "none", charset: "utf8",
    define: { GLOSSARY: JSON.stringify(glossary()) },
  });
  return result.outputFiles[0].text;
}

/** Raw string literals of at most 12,000 bytes: compilers need not take longer ones. */
function cppLiteral(text) {
  const pieces = [];
  const bytes = Buffer.from(text, "utf8");
  for (let at = 0; at < bytes.length;) {
    let end = Math.min(at + 12000, bytes.length);
    while (end < bytes.length && (bytes[end] & 0xc0) === 0x80) --end; // not inside a character
    pieces.push(`R"~~tpt~~(${bytes.subarray(at, end).toString("utf8")})~~tpt~~"`);
    at = end;
  }
  return pieces.join("\n");
}

// Later ones win: what is printed comes last.
const styles = ["base", "charts", "tables", "filters", "timeline", "print"];
const read = (name) => readFileSync(join(here, name), "utf8");
const script = (await bundledScript()).replaceAll("</script", "<\\/script");
// Functions, because "$&" in the text would mean something to replace().
const template = read("template.html")
  .replace("/*STYLE*/", () => styles.map((name) => read(`src/${name}.css`)).join(""))
  .replace("/*SCRIPT*/", () => script);
const cpp = `// Made by web/build.mjs; do not edit.
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {

std::string_view page_template() {
  static constexpr char text[] =
${cppLiteral(template)};
  return std::string_view(text, sizeof(text) - 1);
}

}  // namespace triplepoint::report
`;
writeFileSync(output, output.endsWith(".html") ? template : cpp);
