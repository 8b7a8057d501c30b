// SPDX-License-Identifier: Apache-2.0
// The explorer's core in node, from the folder that `make explore` writes.
import { readFileSync } from "node:fs";
import { join } from "node:path";

export async function coreOf(folder) {
  const { startCore } = await import(join(folder, "core.mjs"));
  const core = startCore(await WebAssembly.compile(readFileSync(join(folder, "core.wasm"))));
  core.mount(new Uint8Array(readFileSync(join(folder, "data.pack"))));
  return core;
}

/** Words of a shell line with double quotes. */
export function wordsOf(line) {
  return [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain);
}

/** {"--tp": "8"} of ["--tp", "8"]; what stands twice is a list. */
export function flagsOf(words) {
  const flags = {};
  for (let i = 0; i < words.length; ++i) {
    const name = words[i];
    const value = i + 1 < words.length && !words[i + 1].startsWith("--") ? words[++i] : "";
    flags[name] = name in flags ? [flags[name], value].flat() : value;
  }
  return flags;
}

/** A file for mount(), of a text of which every character is a byte. */
export function packOf(name, text) {
  const [title, content] = [Buffer.from(name), Buffer.from(text, "latin1")];
  const lengths = Buffer.alloc(8);
  lengths.writeUInt32LE(title.length, 0);
  lengths.writeUInt32LE(content.length, 4);
  return new Uint8Array(Buffer.concat([lengths, title, content]));
}
