// SPDX-License-Identifier: Apache-2.0
// Cores in workers, by what they are for: no slow answer stands in the way of a fast one.
import { packOf, type Answer } from "./explorer_core";

declare const WORKER: string; // the source of explorer_worker.ts; put in by build.py

interface Asked {
  id: number;
  name: string;
  request: unknown;
  answer: (answer: Answer | undefined) => void;
  progress?: Progress;
}

/** How far a search is: "Bounding", 0.3. */
type Progress = (now: { what: string; share: number }) => void;

/** What every core begins with: the code, and files. */
interface Parts {
  module: WebAssembly.Module;
  packs: Uint8Array[];
}

/** One core. What is asked waits; `latest` drops what waits and is older. */
class Line {
  private worker: Worker;
  private waiting: Asked[] = [];
  private inFlight: Asked | undefined;
  private id = 0;

  /** The worker starts while the code is still compiled. */
  constructor(private readonly parts: Promise<Parts>) {
    this.worker = this.start();
  }

  private start(): Worker {
    const address = URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" }));
    const worker = new Worker(address);
    URL.revokeObjectURL(address);
    void this.parts.then((parts) => worker.postMessage(parts));
    worker.onmessage = ({ data }: MessageEvent<{ id: number; answer?: Answer; progress?: Parameters<Progress>[0] }>): void => {
      if (this.inFlight?.id !== data.id) return;
      if (data.progress !== undefined) return this.inFlight.progress?.(data.progress);
      const done = this.inFlight;
      this.inFlight = undefined;
      done.answer(data.answer);
      this.next();
    };
    return worker;
  }

  private next(): void {
    if (this.inFlight || this.waiting.length === 0) return;
    const { id, name, request } = (this.inFlight = this.waiting.shift()!);
    this.post({ id, name, request });
  }

  /** Behind the parts. */
  private post(message: object): void {
    const { worker } = this;
    void this.parts.then(() => worker.postMessage(message));
  }

  ask(name: string, request: unknown, progress?: Progress): Promise<Answer | undefined> {
    return new Promise((answer) => {
      this.waiting.push({ id: ++this.id, name, request, answer, ...(progress ? { progress } : {}) });
      this.next();
    });
  }

  /** Nothing, where something newer of this name was asked before this one began. */
  latest(name: string, request: unknown): Promise<Answer | undefined> {
    for (const old of this.waiting.filter((each) => each.name === name)) old.answer(undefined);
    this.waiting = this.waiting.filter((each) => each.name !== name);
    return this.ask(name, request);
  }

  mount(pack: Uint8Array): void {
    this.post({ packs: [pack] });
  }

  /** Ends what is asked; a new core takes its place. */
  stop(): void {
    this.worker.terminate();
    for (const each of [...(this.inFlight ? [this.inFlight] : []), ...this.waiting]) each.answer(undefined);
    this.inFlight = undefined;
    this.waiting = [];
    this.worker = this.start();
  }
}

export class Engine {
  readonly runs: Line; // the job in hand
  private steps_: Line | undefined;
  private side_: Line | undefined;
  private plans_: Line | undefined;

  constructor(private readonly parts: Promise<Parts>) {
    this.runs = new Line(parts);
  }

  /** Step times of jobs that take long to draw. */
  get steps(): Line {
    return (this.steps_ ??= new Line(this.parts));
  }

  /** Which values are legal, curves, files. */
  get side(): Line {
    return (this.side_ ??= new Line(this.parts));
  }

  get plans(): Line {
    return (this.plans_ ??= new Line(this.parts));
  }

  addFile(name: string, content: Uint8Array): void {
    const pack = packOf(name, content);
    for (const line of [this.runs, this.steps_, this.side_, this.plans_]) line?.mount(pack);
    void this.parts.then(({ packs }) => packs.push(pack)); // for cores that begin later
  }
}

/** A file inside of the page (explore.html), or beside it. */
async function fileOf(id: string, file: string): Promise<Response> {
  const inside = document.getElementById(id)?.textContent?.trim();
  if (!inside) return fetch(file);
  const letters = atob(inside);
  const packed = new Uint8Array(letters.length);
  for (let i = 0; i < packed.length; ++i) packed[i] = letters.charCodeAt(i);
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip")));
}

const bytesOf = async (file: Promise<Response>): Promise<Uint8Array<ArrayBuffer>> => new Uint8Array(await (await file).arrayBuffer());

export async function loadParts(): Promise<Parts> {
  const [core, data] = await Promise.all([bytesOf(fileOf("core", "core.wasm")), bytesOf(fileOf("pack", "data.pack"))]);
  return { module: await WebAssembly.compile(core), packs: [data] };
}
