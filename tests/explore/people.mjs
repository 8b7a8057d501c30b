// SPDX-License-Identifier: Apache-2.0
// Three people at work with the explorer, by what they see alone; a picture after each step.
//   node people.mjs FOLDER PICTURES        77: there is no Chromium, or nothing to drive it
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { launch, openPage } from "../pages/browser.mjs";

const [folder, pictures] = process.argv.slice(2);
const longest = 180; // seconds of a story
mkdirSync(pictures, { recursive: true });

/** Presses and looks: every method names what stands on the page. */
function hands(page, story) {
  let pictureNumber = 0;
  const field = (title) => page.getByRole("group", { name: title, exact: true });
  const settled = () => page.waitForFunction(() => !document.querySelector(".older, [aria-busy=true]"), undefined, { timeout: 60000 });
  return {
    press: (name) => page.getByRole("button", { name, exact: true }).first().click(), // a card of the gallery speaks of buttons
    unfold: (name) => page.getByText(name, { exact: true }).click(),
    choose: (title, value) => field(title).getByRole("button", { name: value, exact: true }).click(),
    pick: (title, value) => page.getByLabel(title, { exact: true }).selectOption(value),
    slide: (title, value) => page.getByLabel(title, { exact: true }).fill(String(value)),
    wait: (text) => page.getByText(text).first().waitFor({ timeout: 120000 }),
    async look(what) {
      await settled();
      await page.waitForTimeout(2500);
      await page.screenshot({ path: join(pictures, `${story}-${(pictureNumber += 1)}-${what}.png`) });
    },
  };
}

const stories = {
  /** Which layout for Llama 3 70B on 64 H100? */
  async engineer({ unfold, press, choose, wait, look }) {
    await look("opened");
    await unfold("Start from");
    await press(/Llama 3 70B on 64 H100/);
    await look("does-not-fit");
    await press("Find the best plan");
    await wait("Use plan 1");
    await look("plans");
    await press("Use plan 1");
    await look("best-plan");
    await press("Pin this job");
    await choose("Tensor parallel", "4");
    await look("compared");
    await press("Megatron-LM");
    await look("copied");
  },
  /** From which inlet on does it hurt? */
  async operator({ slide, look, press }) {
    await slide("Inlet", 30);
    await look("thirty");
    await press("Pin this job");
    await slide("Inlet", 40);
    await look("forty");
    await slide("Power limit of a GPU", 550);
    await look("limited");
  },
  /** Air or liquid? */
  async architect({ unfold, press, choose, look }) {
    await unfold("Start from");
    await press(/Air or liquid/);
    await look("liquid");
    await press("Pin this job");
    await choose("Cooling", "air");
    await look("air");
    await choose("Train for (tokens)", "1T");
    await look("bill");
  },
};

const browser = await launch();
let failed = false;
for (const [story, act] of Object.entries(stories)) {
  const { context, page, problems } = await openPage(browser, join(folder, "explore.html"), { width: 1440, height: 900 });
  const begin = performance.now();
  await act(hands(page, story)).catch((error) => problems.push(error.message));
  const seconds = (performance.now() - begin) / 1000;
  console.log(`${story}: ${seconds.toFixed(0)} s`);
  if (seconds > longest) problems.push(`it took more than ${longest} s`);
  for (const problem of problems) console.error(`${story}: ${problem}`);
  failed ||= problems.length > 0;
  await context.close();
}
await browser.close();
process.exit(failed ? 1 : 0);
