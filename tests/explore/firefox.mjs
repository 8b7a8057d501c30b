// SPDX-License-Identifier: Apache-2.0
// The explorer in Firefox, driven by its own protocol (Marionette): the page opens and answers, and the core gives the texts that
// it gives in node, to the last digit.
//   node firefox.mjs FOLDER [PICTURE.png]        77: there is no Firefox
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { coreOf, flagsOf, wordsOf } from "./core.mjs";

const [folder, picture] = process.argv.slice(2);
const port = 2828;
const names = ["firefox-esr", "firefox"];
const program = (process.env.PATH ?? "").split(delimiter).flatMap((path) => names.map((name) => join(path, name))).find((file) => existsSync(file));
if (!program) {
  console.log("skipped: no Firefox (apt install firefox-esr)");
  process.exit(77);
}
const scratch = mkdtempSync(join(tmpdir(), "triplepoint-firefox-"));
const firefox = spawn(program, ["--headless", "--no-remote", "--marionette", "--profile", scratch, "about:blank"], { stdio: "ignore" });

/** Messages are "LENGTH:[0, number, command, parameters]", answers "LENGTH:[1, number, error, result]". */
async function session() {
  const socket = await new Promise((done, failed) => {
    const attempt = (left) => {
      const one = connect(port, "127.0.0.1", () => done(one));
      one.on("error", (error) => (left > 0 ? setTimeout(() => attempt(left - 1), 500) : failed(error)));
    };
    attempt(120);
  });
  const waiting = new Map();
  let number = 0, rest = Buffer.alloc(0);
  socket.on("data", (piece) => {
    rest = Buffer.concat([rest, piece]);
    for (let colon = rest.indexOf(":"); colon > 0; colon = rest.indexOf(":")) {
      const end = colon + 1 + Number(rest.subarray(0, colon));
      if (rest.length < end) return;
      const message = JSON.parse(rest.subarray(colon + 1, end).toString());
      rest = rest.subarray(end);
      if (!Array.isArray(message)) continue; // its greeting
      const { done, failed } = waiting.get(message[1]);
      message[2] ? failed(new Error(message[2].message)) : done(message[3]);
    }
  });
  const ask = (command, parameters = {}) => new Promise((done, failed) => {
    waiting.set((number += 1), { done, failed });
    const text = JSON.stringify([0, number, `WebDriver:${command}`, parameters]);
    socket.write(`${Buffer.byteLength(text)}:${text}`);
  });
  await ask("NewSession", {});
  await ask("SetTimeouts", { script: 300000, pageLoad: 60000 });
  return { ask, evaluate: async (script) => (await ask("ExecuteAsyncScript", { script, args: [] })).value };
}

/** A page that asks the core for the results of all requests, and keeps them as text. */
function pageOf(requests) {
  const base64 = (name) => readFileSync(join(folder, name)).toString("base64");
  const core = readFileSync(join(folder, "core.mjs"), "utf8").replace(/export\s*\{([^}]*)\};?\s*$/, (_, list) =>
    list.split(",").map((each) => each.trim().split(" as ")).map(([own, name]) => `globalThis.${name ?? own}=${own};`).join(""));
  return `<!doctype html><meta charset="utf-8"><script type="module">${core}
const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const core = startCore(await WebAssembly.compile(bytes("${base64("core.wasm")}")));
core.mount(bytes("${base64("data.pack")}"));
document.title = "asking";
globalThis.answers = ${JSON.stringify(requests)}.map((request) => JSON.stringify(core.call("results", request)));
</script>`;
}

const failures = [];
try {
  const { ask, evaluate } = await session();
  await ask("Navigate", { url: pathToFileURL(resolve(folder, "explore.html")).href });
  const tiles = await evaluate(`const done = arguments[0], begin = performance.now();
    const look = () => document.documentElement.dataset.ready ? done({ ms: performance.now() - begin, verdict: document.querySelector(".answer .verdict").textContent,
      step: document.querySelector(".tiles.quick li:nth-child(2) b").textContent }) : setTimeout(look, 20);
    look();`);
  console.log(`opened, drawn after ${Math.round(tiles.ms)} ms: step ${tiles.step}; ${tiles.verdict}`);
  if (!tiles.verdict.startsWith("Fits in memory")) failures.push(`the page says: ${tiles.verdict}`);
  if (picture) writeFileSync(picture, Buffer.from((await ask("TakeScreenshot", { full: false })).value, "base64"));

  const lines = readFileSync(new URL("jobs.txt", import.meta.url), "utf8").split("\n").filter((line) => line.startsWith("--"));
  const requests = lines.map((line) => ({ flags: flagsOf(wordsOf(line)) }));
  const page = join(scratch, "numbers.html");
  writeFileSync(page, pageOf(requests));
  await ask("Navigate", { url: pathToFileURL(page).href });
  const answers = await evaluate("const done = arguments[0]; const look = () => window.answers ? done(Array.from(window.answers)) : setTimeout(look, 100); look();");
  const core = await coreOf(folder);
  let equal = 0;
  requests.forEach((request, i) => {
    if (answers[i] === JSON.stringify(core.call("results", request))) equal += 1;
    else failures.push(`${lines[i]}: other texts than in node`);
  });
  console.log(`${equal} of ${requests.length} jobs have the same text in Firefox and in node`);
  await ask("DeleteSession");
} catch (error) {
  failures.push(error.stack);
} finally {
  firefox.kill();
  rmSync(scratch, { recursive: true, force: true, maxRetries: 5 });
}
for (const failure of failures) console.error(failure);
process.exit(failures.length > 0 ? 1 : 0);
