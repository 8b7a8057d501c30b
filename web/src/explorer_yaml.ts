// SPDX-License-Identifier: Apache-2.0
// YAML for the core: the tree of formats/yaml_document.h, as JSON.
import { type Document, isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseAllDocuments } from "yaml";

/** At a line: a word ("text", as written), a list, a table, or nothing. */
export interface YamlTree {
  line: number;
  text?: string;
  quoted?: boolean;
  items?: YamlTree[];
  entries?: [string, YamlTree][];
}

const nothing = ["", "~", "null", "Null", "NULL"];
// As of the program's parser.
const deepest = 64;
const mostNodes = 100000;

class Refused extends Error {
  constructor(readonly line: number, what: string) {
    super(what);
  }
}

function treeOf(document: Document, lines: LineCounter): YamlTree {
  let count = 0;
  const lineOf = (node: Node | null): number => (node?.range ? lines.linePos(node.range[0]).line : 0);
  const tree = (node: Node | null, depth: number): YamlTree => {
    const line = lineOf(node);
    if (++count > mostNodes) throw new Refused(line, `the file has more than ${mostNodes} nodes`);
    if (depth > deepest) throw new Refused(line, `nested deeper than ${deepest} levels`);
    if (isAlias(node)) return tree(node.resolve(document) ?? null, depth);
    if (isSeq<Node | null>(node)) return { line, items: node.items.map((item) => tree(item, depth + 1)) };
    if (isMap<Node | null, Node | null>(node)) return { line, entries: node.items.map(({ key, value }) => [keyOf(key), tree(value, depth + 1)]) };
    const text = isScalar(node) ? String(node.value ?? "") : "";
    const quoted = isScalar(node) && node.type !== "PLAIN";
    return !quoted && nothing.includes(text) ? { line } : { line, text, quoted };
  };
  const keyOf = (key: Node | null): string => {
    const node = isAlias(key) ? key.resolve(document) ?? null : key;
    if (!isScalar(node)) throw new Refused(lineOf(key), "a key is not a plain word");
    return String(node.value ?? "");
  };
  return tree(document.contents, 0);
}

/** The first document of a file; {"error", "line"} where it is none. */
export function parseYaml(text: string): YamlTree | { error: string; line: number } {
  try {
    const lines = new LineCounter();
    const [document] = parseAllDocuments(text, { lineCounter: lines, schema: "failsafe", prettyErrors: false });
    if (!document) return { error: "holds no YAML document; try another file", line: 0 };
    const [broken] = document.errors;
    if (broken) return { error: `not YAML (${broken.message}); correct the line`, line: lines.linePos(broken.pos[0]).line };
    return treeOf(document, lines);
  } catch (problem) {
    if (problem instanceof Refused) return { error: problem.message, line: problem.line };
    return { error: `not YAML (${String(problem)}); try another file`, line: 0 };
  }
}
