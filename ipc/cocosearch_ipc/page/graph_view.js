// The code graph on the page: the neighbours of a symbol, and the modules of an index. The address has what is shown, so each
// node is a link, and the browser's buttons lead back.

import { ask } from "./daemon.js";
import { between, layers } from "./graph_drawing.js";

const NEIGHBOURS = 12;
const MODULES = 24;
const at = (id) => document.getElementById(id);

export const symbolAddress = (index, path, line) => `#${new URLSearchParams({ symbol: `${path}:${line}`, index })}`;
export const modulesAddress = (index, path = "") => `#${new URLSearchParams({ modules: path, index })}`;

let asking = new AbortController();

export async function showGraph() {
  asking.abort();
  asking = new AbortController();
  const address = new URLSearchParams(location.hash.slice(1));
  const index = address.get("index");
  const isShown = index !== null && (address.has("symbol") || address.has("modules"));
  at("graph").hidden = !isShown;
  if (!isShown) return;
  at("graph").setAttribute("aria-busy", "true");
  try {
    const drawn = address.has("symbol")
      ? await neighbours(index, address.get("symbol"), asking.signal)
      : await modules(index, address.get("modules"), asking.signal);
    show(drawn);
  } catch (error) {
    if (error.name === "AbortError") return;
    show({ title: "Code graph", facts: [`${error.message} ${error.hint ?? ""}`] });
  }
  at("graph").removeAttribute("aria-busy");
}

function show({ title, facts, drawing, kinds = "" }) {
  at("graph-title").textContent = title;
  at("graph-facts").textContent = facts.filter(Boolean).join(" · ");
  at("graph-drawing").replaceChildren(...(drawing ? [drawing] : []));
  at("graph-legend").className = `legend quiet ${kinds}`;
  at("graph-legend").hidden = !drawing;
  at("graph").scrollIntoView({ block: "nearest" });
}

// What the answers behind a drawing lack: notes, and the first that is not fresh.
function doubts(...replies) {
  const stale = replies.find((reply) => !reply.fresh);
  const notes = new Set(replies.flatMap((reply) => reply.notes ?? []));
  return [...notes, stale ? `not fresh: ${stale.stale_reason}` : "fresh"];
}
const count = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
// The entries behind a page of a call tree are not counted.
const atLeast = (reply, word) => (reply.cursor ? `${reply.total.toLocaleString("en")} or more ${word}s` : count(reply.total, word));
const more = (total, shown, what) => (total > shown ? `${total - shown} more ${what}` : "");

async function neighbours(index, target, signal) {
  const params = { target, index, limit: NEIGHBOURS };
  const [callers, callees] = await Promise.all([ask("callers", params, signal), ask("callees", params, signal)]);
  const node = (entry) => ({
    name: `${entry.symbol.kind} ${entry.symbol.name}`,
    note: entry.symbol.start_line ? `${entry.symbol.path}:${entry.symbol.start_line}` : entry.symbol.path,
    href: entry.symbol.start_line
      ? symbolAddress(index, entry.symbol.path, entry.symbol.start_line)
      : modulesAddress(index, entry.symbol.path),
    kind: entry.confidence,
  });
  const direct = (reply) => reply.calls.filter((entry) => entry.depth === 1).map(node);
  const [symbol] = callers.definitions;
  const center = symbol
    ? { name: `${symbol.kind} ${symbol.name}`, note: `${symbol.path}:${symbol.start_line}` }
    : { name: target, note: "" };
  const [before, after] = [direct(callers), direct(callees)];
  return {
    title: `Callers and callees of ${center.name}`,
    facts: [
      `${atLeast(callers, "caller")}, ${atLeast(callees, "callee")}`,
      callees.external.length ? `calls of other projects: ${callees.external.slice(0, NEIGHBOURS).join(", ")}` : "",
      ...doubts(callers, callees),
    ],
    drawing: between(before, center, after, `${count(before.length, "caller")} and ${count(after.length, "callee")} of ${center.name}`),
    kinds: "confidences",
  };
}

async function modules(index, path, signal) {
  const reply = await ask("dependencies", { target: path, index, limit: 1000 }, signal);
  return reply.kind === "file" ? fileImports(index, reply) : directoryModules(index, path, reply);
}

function fileImports(index, reply) {
  const node = ({ path }) => ({ name: path.split("/").pop(), note: path, href: modulesAddress(index, path), kind: "certain" });
  const [before, after] = [reply.importers, reply.imports].map((files) => files.slice(0, NEIGHBOURS).map(node));
  return {
    title: `Imports of ${reply.target}`,
    facts: [
      `imported by ${reply.total_importers}, imports ${reply.total_imports}`,
      more(reply.total_importers, before.length, "importers"),
      more(reply.total_imports, after.length, "imports"),
      ...doubts(reply),
    ],
    drawing: between(before, { name: reply.target.split("/").pop(), note: reply.target }, after, `Files that import ${reply.target}, and that it imports`),
  };
}

function directoryModules(index, path, reply) {
  const degree = new Map();
  for (const { source, target, count } of reply.edges) {
    degree.set(source, (degree.get(source) ?? 0) + count);
    degree.set(target, (degree.get(target) ?? 0) + count);
  }
  const linked = reply.modules.filter((module) => degree.has(module.path)).sort((a, b) => degree.get(b.path) - degree.get(a.path));
  const shown = linked.slice(0, MODULES);
  const nodes = shown.map((module) => ({
    id: module.path,
    name: module.path.slice(path ? path.length + 1 : 0) || module.path,
    note: count(module.files, "file"),
    href: modulesAddress(index, module.path),
  }));
  const name = path || index;
  return {
    title: `Modules of ${name}`,
    facts: [
      `${count(reply.modules.length, "module")}, ${linked.length} with imports between them`,
      more(linked.length, shown.length, "modules"),
      reply.cycles.length ? `${count(reply.cycles.length, "group")} of modules that import each other in a circle` : reply.complete ? "no circle of imports" : "",
      ...doubts(reply),
    ],
    drawing: nodes.length ? layers(nodes, reply.edges, `Imports between ${nodes.length} modules of ${name}`) : null,
    kinds: "imports",
  };
}

window.addEventListener("hashchange", showGraph);
