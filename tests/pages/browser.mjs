// SPDX-License-Identifier: Apache-2.0
// The system's Chromium, driven by playwright-core. Tests skip (77) where one of them is missing.
import { existsSync, readFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const modules = fileURLToPath(new URL("../../web/node_modules/", import.meta.url));

function chromium() {
  for (const name of ["chromium", "chromium-browser", "google-chrome"]) {
    for (const folder of (process.env.PATH ?? "").split(delimiter)) {
      if (folder && existsSync(join(folder, name))) return join(folder, name);
    }
  }
  return null;
}

function skip(why) {
  console.log(`skipped: ${why}`);
  process.exit(77);
}

export async function launch() {
  const program = chromium();
  if (!program) skip("no Chromium (apt install chromium)");
  if (!existsSync(join(modules, "playwright-core"))) skip("no playwright-core (npm ci in web/, or make packages)");
  const { chromium: driver } = await import(pathToFileURL(join(modules, "playwright-core/index.mjs")).href);
  return driver.launch({ executablePath: program, args: ["--no-sandbox", "--disable-gpu"] });
}

/** The text of axe-core, to be evaluated in a page; null where it is not installed. */
export function axeSource() {
  const file = join(modules, "axe-core/axe.min.js");
  return existsSync(file) ? readFileSync(file, "utf8") : null;
}

/** A page with everything it complains about and asks for, in `problems`. */
export async function openPage(browser, file, { width, theme = "light", height = 1000, hash = "" }) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, hasTouch: width < 500, acceptDownloads: true });
  const page = await context.newPage();
  const problems = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && problems.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
  page.on("request", (request) => /^(file|data|blob):/.test(request.url()) || problems.push(`request: ${request.url()}`));
  await page.addInitScript(() => addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.blockedURI}`)));
  if (file === "about:blank") return { context, page, problems };
  await page.goto(pathToFileURL(file).href + hash);
  await page.waitForSelector("html[data-ready]", { state: "attached", timeout: 60000 });
  return { context, page, problems };
}
