// SPDX-License-Identifier: Apache-2.0
// Laws of the timeline's data and model, without a browser: node check_timeline.mjs.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { encode, sampleTimeline } from "./sample_timeline.mjs";

const web = fileURLToPath(new URL("../../web/", import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), "triplepoint-web-"));

/** A module of web/src as Node can import it. */
async function load(name) {
  const outfile = join(scratch, `${name}.mjs`);
  execFileSync("esbuild", [join(web, "src", `${name}.ts`), "--bundle", "--format=esm", `--outfile=${outfile}`, "--log-level=error"]);
  return import(pathToFileURL(outfile).href);
}

const { decode } = await load("timeline_data");
const { TimelineModel } = await load("timeline_model");
const { spanAt, spanBeside, typesNamed } = await load("timeline_find");
const { ticksOf, durationText } = await load("timeline_text");
const { TimeWindow } = await load("timeline_window");
const { placeOf } = await load("place");

const size = { ranks: 4, microbatches: 3, layers: 5 };
const patterns = new TimelineModel(sampleTimeline(size));
const spans = new TimelineModel(sampleTimeline({ ...size, expanded: true }));

function all(model, rank, from = -Infinity, to = Infinity) {
  const found = [];
  for (const track of model.ranks[rank].tracks.filter(({ lane }) => lane >= 0)) model.visit(track, from, to, (...span) => found.push([track.lane, ...span]));
  return found.sort((a, b) => a[1] - b[1] || a[0] - b[0] || a[3] - b[3]);
}

const claims = {
  "a column decodes to what was encoded"() {
    for (const values of [[], [0], [5, 5, 5], [-1, 7, -3, 2 ** 31, 2 ** 40 + 1, 0, 2 ** 51]]) {
      assert.deepEqual([...decode(encode(values), values.length)], values);
    }
  },
  "a number stands for a column of it"() {
    assert.deepEqual([...decode(7, 3)], [7, 7, 7]);
  },
  "patterns show the same spans as the list they stand for"() {
    for (let rank = 0; rank < size.ranks; ++rank) {
      assert.ok(all(patterns, rank).length > 100);
      assert.deepEqual(all(patterns, rank), all(spans, rank));
    }
  },
  "a stretch of time has exactly the spans that touch it"() {
    const whole = all(patterns, 1);
    for (let i = 0; i < 50; ++i) {
      const from = (patterns.length * i) / 50;
      const to = from + (patterns.length * ((i % 7) + 1)) / 100;
      const touching = whole.filter(([, begin, end]) => end > from && begin < to);
      assert.deepEqual(all(patterns, 1, from, to), touching);
      assert.deepEqual(all(spans, 1, from, to), touching);
    }
  },
  "stepping from span to span visits all of them, both ways"() {
    const track = patterns.ranks[2].tracks.find(({ lane }) => lane === 0);
    const begins = [];
    patterns.visit(track, -Infinity, Infinity, (begin) => begins.push(begin));
    const forth = [];
    for (let at = spanBeside(patterns, [track], -1, true, null); at; at = spanBeside(patterns, [track], at.begin, true, null)) forth.push(at.begin);
    const back = [];
    for (let at = spanBeside(patterns, [track], patterns.length + 1, false, null); at; at = spanBeside(patterns, [track], at.begin, false, null)) back.push(at.begin);
    const expected = [...new Set(begins)].sort((a, b) => a - b);
    assert.deepEqual(forth, expected);
    assert.deepEqual(back.reverse(), expected);
  },
  "searching steps to spans of that name only"() {
    const wanted = typesNamed(patterns, "ATT");
    const tracks = patterns.ranks.flatMap((rank) => rank.tracks);
    const found = spanBeside(patterns, tracks, -1, true, wanted);
    assert.equal(patterns.nameOf(found.type), "attention");
    assert.equal(typesNamed(patterns, "no such name").size, 0);
    assert.equal(typesNamed(patterns, "  "), null);
  },
  "under the pointer is the span of that time, or the nearest within reach"() {
    const track = patterns.ranks[0].tracks.find(({ lane }) => lane === 0);
    const [, begin, end] = all(patterns, 0)[0];
    assert.equal(spanAt(patterns, track, (begin + end) / 2, 0).begin, begin);
    assert.equal(spanAt(patterns, track, begin - 5, 10).begin, begin);
    assert.equal(spanAt(patterns, track, begin - 50, 10), null);
  },
  "calls inside of calls lie on lines below"() {
    const data = sampleTimeline({ ranks: 1, microbatches: 1, layers: 1, expanded: true });
    const [begin, length] = [[0, 10, 20], [100, 50, 10]];
    data.spans = { ...data.spans, count: 3, rank: 0, lane: 0, begin: encode(begin), length: encode(length), type: 0, microbatch: -1, layer: -1, wait: 0, bytes: 0 };
    const depths = new TimelineModel(data).ranks[0].tracks.filter(({ lane }) => lane === 0).map(({ depth, size: many }) => [depth, many]);
    assert.deepEqual(depths, [[0, 1], [1, 1], [2, 1]]);
  },
  "zooming keeps the time under the pointer"() {
    const view = new TimeWindow(0, 60e9, 1e9, 2e9);
    view.resize(1000);
    view.home();
    for (let i = 0; i < 80; ++i) {
      const at = view.time(300);
      view.zoom(0.8, 300);
      assert.ok(Math.abs(view.time(300) - at) < 1);
    }
    assert.ok(view.span <= 1000, "a microsecond fills the window");
    view.everything();
    assert.ok(view.span >= 60e9);
  },
  "ticks are round, in order, inside the window and few"() {
    for (let span = 500; span < 1e12; span *= 3.7) {
      const { ticks } = ticksOf(5e9, 5e9 + span, 12);
      assert.ok(ticks.length >= 2 && ticks.length <= 13, `${ticks.length} ticks for ${span}`);
      assert.ok(ticks.every(({ at }, i) => at >= 5e9 && at <= 5e9 + span && (i === 0 || at > ticks[i - 1].at)));
      assert.equal(new Set(ticks.map(({ text }) => text)).size, ticks.length, "two ticks read the same");
    }
    assert.equal(durationText(2_086_000), "2.086 ms");
    assert.equal(durationText(512), "512 ns");
  },
  "an address keeps anchor and filters apart"() {
    const { anchor, query } = placeOf("#group-a%20b?model=x&model=y&find=oom");
    assert.equal(anchor, "group-a b");
    assert.deepEqual(query.getAll("model"), ["x", "y"]);
    assert.equal(placeOf("").anchor, "");
    assert.equal(placeOf("#100%").anchor, "100%");
  },
};

let failed = 0;
for (const [name, claim] of Object.entries(claims)) {
  try {
    claim();
  } catch (error) {
    console.error(`not true: ${name}\n  ${error.message}`);
    ++failed;
  }
}
rmSync(scratch, { recursive: true, force: true });
console.log(failed === 0 ? `${Object.keys(claims).length} claims hold` : `${failed} claims do not hold`);
process.exit(failed === 0 ? 0 : 1);
