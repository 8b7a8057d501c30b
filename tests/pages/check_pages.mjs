// SPDX-License-Identifier: Apache-2.0
// Opens the reports in a headless Chromium and says what is wrong with them.
//   node check_pages.mjs SAMPLE_PAGES_PROGRAM | FILE.html ...     [SCREENSHOTS=folder in the environment]
// Each page is opened at three widths, in both themes: no script error, no request, everything drawn, nothing sticks
// out, every control works by keyboard, axe-core finds nothing serious. 77: there is no Chromium, or nothing to drive it.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { axeSource, launch, openPage } from "./browser.mjs";
import { followLinks, inspect } from "./inspect.mjs";
import { tryControls, walk } from "./keyboard.mjs";
import { samplePlots, sampleTimeline, withTimeline } from "./sample_timeline.mjs";

const widths = [390, 820, 1280];
const themes = ["light", "dark"];
const pictures = process.env.SCREENSHOTS;

/** The pages of the program that writes samples, and a run whose timeline has all that a timeline may have. */
function samplePages(program, folder) {
  execFileSync(program, [folder]);
  const run = readFileSync(join(folder, "run.html"), "utf8");
  const patterns = sampleTimeline({});
  const spans = sampleTimeline({ ranks: 8, microbatches: 4, layers: 6, expanded: true });
  const write = (name, timeline, seconds) => writeFileSync(join(folder, `${name}.html`), withTimeline(run, timeline, samplePlots(seconds)));
  write("timeline-patterns", patterns, (1.2 * patterns.length) / 1e9);
  write("timeline-spans", spans, (1.2 * spans.length) / 1e9);
  write("timeline-curves", undefined, 60);
  return readdirSync(folder).filter((name) => name.endsWith(".html")).sort().map((name) => join(folder, name));
}

const axe = axeSource();

/** What axe-core calls serious or critical. */
async function barriers(page) {
  if (!axe) return [];
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return violations.filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, help, nodes }) => `axe ${id}: ${help} (${nodes.length}, first: ${nodes[0].html.slice(0, 160)})`);
}

async function picture(page, file, width, theme) {
  if (!pictures) return;
  mkdirSync(pictures, { recursive: true });
  await page.screenshot({ path: join(pictures, `${basename(file, ".html")}-${width}-${theme}.png`), fullPage: true });
}

async function problemsOf(browser, file, width, theme) {
  const { context, page, problems } = await openPage(browser, file, { width, theme });
  await page.waitForTimeout(150); // frames in which canvases are drawn
  problems.push(...(await page.evaluate(inspect)));
  await picture(page, file, width, theme);
  problems.push(...(await page.evaluate(followLinks)));
  problems.push(...(await barriers(page)));
  if (theme === "light") {
    problems.push(...(await walk(page)));
    problems.push(...(await tryControls(page)));
  }
  await context.close();
  return problems;
}

const browser = await launch();
if (!axe) console.log("axe-core is not installed (npm ci in web/): nothing is said about barriers");
const scratch = mkdtempSync(join(tmpdir(), "triplepoint-pages-"));
const given = process.argv.slice(2);
const pages = given.every((name) => name.endsWith(".html")) ? given : samplePages(given[0], scratch);
let count = 0;
for (const file of pages) {
  for (const width of widths) {
    for (const theme of themes) {
      const problems = await problemsOf(browser, file, width, theme).catch((error) => [`the check broke off: ${error.message}`]);
      for (const problem of problems) console.error(`${basename(file)}, ${width} px, ${theme}: ${problem}`);
      count += problems.length;
    }
  }
}
await browser.close();
rmSync(scratch, { recursive: true, force: true });
console.log(count === 0 ? `${pages.length} pages are drawn, quiet and usable` : `${count} problems`);
process.exit(count === 0 ? 0 : 1);
