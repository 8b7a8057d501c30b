// SPDX-License-Identifier: Apache-2.0
// Opens the reports in a headless Chromium and says what is wrong with them.
//   node check_pages.mjs SAMPLE_PAGES_PROGRAM | FILE.html ...     [SCREENSHOTS=folder in the environment]
// Each page is opened at three widths, in both themes: no script error, no request, everything drawn, nothing sticks
// out, every control works. 77: there is no Chromium.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";

const widths = [390, 820, 1280];
const themes = ["light", "dark"];
const scratch = mkdtempSync(join(tmpdir(), "triplepoint-pages-"));

function chromium() {
  for (const name of ["chromium", "chromium-browser", "google-chrome"]) {
    if (spawnSync(name, ["--version"], { stdio: "ignore" }).status === 0) return name;
  }
  return null;
}

/** Runs inside the page, before anything of it. */
function watch() {
  window.problems = [];
  addEventListener("error", (event) => window.problems.push(`error: ${event.message}`));
  addEventListener("securitypolicyviolation", (event) => window.problems.push(`request: ${event.blockedURI}`));
}

/** Runs inside the page when it has loaded; tries everything, writes what it finds onto the root element. */
function inspect() {
  const expect = (good, what) => good || window.problems.push(what);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const root = document.documentElement;
  expect(root.dataset.ready === "yes", "the script did not come to its end");
  expect(root.scrollWidth <= innerWidth, `the page is ${root.scrollWidth} wide in a window of ${innerWidth}`);
  expect(all("h1").length === 1, "not one h1");
  expect(document.title.length > 3, "no title");
  const ids = all("[id]").map((element) => element.id);
  ids.forEach((id, i) => expect(ids.indexOf(id) === i, `two elements are called ${id}`));
  for (const link of all("a[href^='#']")) expect(document.getElementById(decodeURIComponent(link.hash.slice(1))), `a link leads to ${link.hash}, which is nowhere`);
  for (const svg of all("svg[role=img]")) {
    expect((svg.getAttribute("aria-label") ?? "").length > 3, "a chart has no name");
    expect(!/NaN|inf/.test(svg.outerHTML), `a chart has a number that is none: ${svg.getAttribute("aria-label")}`);
    const visible = svg.closest("section[hidden]") === null;
    expect(!visible || svg.getBoundingClientRect().height > 20, `a chart is not drawn: ${svg.getAttribute("aria-label")}`);
  }
  for (const table of all("table:not(.u-legend)")) expect(table.caption && table.tHead, "a table has no caption or no heading");
  for (const figure of all("figure")) expect(figure.querySelector("figcaption")?.textContent, "a figure has no title");
  for (const control of all("button, a, summary")) expect((control.textContent ?? "").trim().length > 0, "a control has no name");
  for (const plot of all(".plot")) expect(plot.querySelector("canvas")?.width > 0, `${plot.id} is not drawn`);

  const links = all(".chooser a");
  for (const link of links) {
    link.click();
    const shown = all("section.group").filter((group) => !group.hidden);
    expect(shown.length === 1 && `#${shown[0].id}` === link.hash, `choosing ${link.hash} shows something else`);
  }
  for (const link of all(".findings a")) {
    location.hash = link.hash;
    dispatchEvent(new HashChangeEvent("hashchange"));
    expect(document.getElementById(link.hash.slice(1)).getBoundingClientRect().height > 0, `a finding leads to ${link.hash}, which stays hidden`);
  }
  const table = document.querySelector(".jobs table");
  if (table) {
    for (const button of all("thead button", table)) button.click();
    expect(table.tHead.querySelectorAll("[aria-sort]").length === 1, "sorting marks no column");
    const field = document.querySelector("#filter");
    field.value = "zzzz-no-such-job";
    field.dispatchEvent(new Event("input"));
    expect(all("tbody tr", table).every((row) => row.hidden), "the filter lets everything through");
    field.value = "";
    field.dispatchEvent(new Event("input"));
    expect(all("tbody tr", table).some((row) => !row.hidden), "the empty filter hides jobs");
  }
  for (const details of all("details")) details.open = true;
  expect(root.scrollWidth <= innerWidth, `with tables open the page is ${root.scrollWidth} wide in a window of ${innerWidth}`);
  const late = performance.getEntriesByType("resource").map((entry) => entry.name).filter((name) => !/^(data|blob|file):/.test(name));
  expect(late.length === 0, `requests: ${late}`);
  root.dataset.problems = JSON.stringify(window.problems);
}

const program = chromium();
if (!program) {
  console.log("skipped: no Chromium (apt install chromium)");
  process.exit(77);
}

function flags(width, theme) {
  return ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", `--user-data-dir=${join(scratch, `profile-${width}-${theme}`)}`, `--window-size=${width},1600`, "--virtual-time-budget=4000",
    `--blink-settings=preferredColorScheme=${theme === "dark" ? 0 : 1}`];
}

/** The page with our two scripts in it. */
function instrumented(file) {
  const html = readFileSync(file, "utf8");
  const early = `<script>(${watch})()</script>`;
  const late = `<script>addEventListener("load", ${inspect})</script>`;
  // The policy comes first in the head, so that it holds for our scripts too.
  const copy = join(scratch, `inspected-${basename(file)}`);
  writeFileSync(copy, html.replace("<title>", () => `${early}<title>`).replace("</body>", () => `${late}</body>`));
  return copy;
}

function problemsOf(file, width, theme) {
  const result = spawnSync(program, [...flags(width, theme), "--dump-dom", pathToFileURL(file).href], { encoding: "utf8", maxBuffer: 1 << 28, timeout: 120000 });
  const found = /data-problems="([^"]*)"/.exec(result.stdout ?? "");
  if (!found) return [`the page did not finish (${(result.stderr ?? "").slice(-200)})`];
  return JSON.parse(found[1].replaceAll("&quot;", '"').replaceAll("&amp;", "&").replaceAll("&lt;", "<").replaceAll("&gt;", ">"));
}

function pages() {
  const given = process.argv.slice(2);
  if (given.every((name) => name.endsWith(".html")) && given.length > 0) return given;
  execFileSync(given[0], [scratch]);
  return [join(scratch, "study.html"), join(scratch, "run.html")];
}

let count = 0;
for (const page of pages()) {
  const copy = instrumented(page);
  for (const width of widths) {
    for (const theme of themes) {
      for (const problem of problemsOf(copy, width, theme)) {
        console.error(`${basename(page)}, ${width} px, ${theme}: ${problem}`);
        ++count;
      }
      if (process.env.SCREENSHOTS) {
        const picture = join(process.env.SCREENSHOTS, `${basename(page, ".html")}-${width}-${theme}.png`);
        spawnSync(program, [...flags(width, theme), `--screenshot=${picture}`, pathToFileURL(page).href], { stdio: "ignore", timeout: 120000 });
      }
    }
  }
}
rmSync(scratch, { recursive: true, force: true });
console.log(count === 0 ? "every page is drawn, quiet and usable" : `${count} problems`);
process.exit(count === 0 ? 0 : 1);
