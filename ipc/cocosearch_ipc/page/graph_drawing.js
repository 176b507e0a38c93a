// Drawings of the code graph as SVG. Each node is a link; kinds of lines have a name in the legend and in the labels.

import { shape, text } from "./charts.js";

const WIDTH = 960;
const NODE = { width: 256, height: 40, gap: 10 };
const COLUMN = { width: 150, gap: 60 }; // of modules; the picture scrolls where they need more than its width
const CHARACTER = { name: 7.6, note: 6.6 }; // pixels
const PADDING = 10;

// The end of a path says more than its beginning, the beginning of a name more than its end.
const cutEnd = (words, most) => (words.length > most ? `${words.slice(0, most - 1)}…` : words);
const cutStart = (words, most) => (words.length > most ? `…${words.slice(1 - most)}` : words);

function box(node, x, y, width) {
  const parts = [
    shape("title", {}, `${node.name} ${node.note}`),
    shape("rect", { x, y, width, height: NODE.height, rx: 6, class: "node" }),
    text(x + PADDING, y + 17, cutEnd(node.name, Math.floor((width - 2 * PADDING) / CHARACTER.name)), { class: "name" }),
    text(x + PADDING, y + 32, cutStart(node.note, Math.floor((width - 2 * PADDING) / CHARACTER.note)), { class: "note" }),
  ];
  if (!node.href) return shape("g", { class: "center" }, ...parts);
  return shape("a", { href: node.href, "aria-label": `${node.name}, ${node.note}${node.kind ? `, ${node.kind}` : ""}` }, ...parts);
}

function line(x1, y1, x2, y2, kind) {
  const bend = (x2 - x1) / 2;
  return shape("path", { d: `M ${x1} ${y1} C ${x1 + bend} ${y1}, ${x2 - bend} ${y2}, ${x2} ${y2}`, class: `edge ${kind}` });
}

const columnHeight = (count) => Math.max(1, count) * (NODE.height + NODE.gap);

function picture(width, height, label, ...parts) {
  const drawing = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": label }, ...parts);
  if (width > WIDTH) {
    drawing.setAttribute("width", width);
    drawing.setAttribute("class", "wide");
  }
  return drawing;
}

// A node between those that lead to it and those that it leads to: {name, note, href, kind}.
export function between(before, center, after, label) {
  const height = columnHeight(Math.max(before.length, after.length));
  const middle = (WIDTH - NODE.width) / 2;
  const last = WIDTH - NODE.width;
  const top = (count, at) => (height - columnHeight(count)) / 2 + at * (NODE.height + NODE.gap) + NODE.gap / 2;
  const half = NODE.height / 2;
  const lines = [
    ...before.map((node, at) => line(NODE.width, top(before.length, at) + half, middle, height / 2, node.kind)),
    ...after.map((node, at) => line(middle + NODE.width, height / 2, last, top(after.length, at) + half, node.kind)),
  ];
  const boxes = [
    ...before.map((node, at) => box(node, 0, top(before.length, at), NODE.width)),
    box(center, middle, height / 2 - half, NODE.width),
    ...after.map((node, at) => box(node, last, top(after.length, at), NODE.width)),
  ];
  return picture(WIDTH, height, label, ...lines, ...boxes);
}

// The column of each node: one to the right of all nodes that import it, but for imports in a circle.
function columnsOf(nodes, edges) {
  const targets = new Map(nodes.map((node) => [node.id, []]));
  for (const edge of edges) targets.get(edge.source)?.push(edge.target);
  const order = [];
  const state = new Map(); // id -> "open" while its imports are followed, "done" afterwards
  const circular = new Set();
  for (const { id: start } of nodes) {
    const stack = state.has(start) ? [] : [[start, 0]];
    while (stack.length) {
      const frame = stack[stack.length - 1];
      const [id, next] = frame;
      state.set(id, "open");
      const target = targets.get(id)[next];
      if (target === undefined) {
        state.set(id, "done");
        order.push(id);
        stack.pop();
      } else {
        frame[1] += 1;
        if (state.get(target) === "open") circular.add(`${id} ${target}`);
        else if (!state.has(target)) stack.push([target, 0]);
      }
    }
  }
  const column = new Map(nodes.map((node) => [node.id, 0]));
  for (const id of order.reverse()) {
    for (const target of targets.get(id)) {
      if (!circular.has(`${id} ${target}`)) column.set(target, Math.max(column.get(target), column.get(id) + 1));
    }
  }
  return { column, circular };
}

// Modules {id, name, note, href} from left to right: a module imports those to its right. Edges are {source, target, count}.
export function layers(nodes, edges, label) {
  const ids = new Set(nodes.map((node) => node.id));
  const drawn = edges.filter((edge) => edge.source !== edge.target && ids.has(edge.source) && ids.has(edge.target));
  const { column, circular } = columnsOf(nodes, drawn);
  const columns = [];
  for (const node of nodes) (columns[column.get(node.id)] ??= []).push(node);
  const filled = columns.filter(Boolean);
  const rows = Math.max(Math.min(4, filled.length), ...filled.map((members) => members.length));
  const height = columnHeight(rows);
  const total = Math.max(WIDTH, filled.length * (COLUMN.width + COLUMN.gap) - COLUMN.gap);
  const width = Math.min(NODE.width, (total - (filled.length - 1) * COLUMN.gap) / filled.length);
  const place = new Map();
  filled.forEach((members, at) => {
    const x = filled.length === 1 ? (total - width) / 2 : (at * (total - width)) / (filled.length - 1);
    // Neighbouring columns stand at other heights, so that lines between distant ones can be told apart.
    const free = height - columnHeight(members.length);
    const top = free * [0.5, 0.15, 0.85][at % 3];
    members.forEach((node, row) => place.set(node.id, { x, y: top + row * (NODE.height + NODE.gap) + NODE.gap / 2 }));
  });
  const half = NODE.height / 2;
  const lines = drawn.map(({ source, target, count }) => {
    const isCircular = circular.has(`${source} ${target}`);
    const [from, to] = [place.get(source), place.get(target)];
    const drawnLine = isCircular
      ? line(from.x, from.y + half, to.x + width, to.y + half, "circular")
      : line(from.x + width, from.y + half, to.x, to.y + half, "certain");
    drawnLine.setAttribute("stroke-width", (1 + Math.log2(1 + count) / 2).toFixed(1));
    drawnLine.append(shape("title", {}, `${source} imports ${target}: ${count}`));
    return drawnLine;
  });
  return picture(total, height, label, ...lines, ...nodes.map((node) => box(node, place.get(node.id).x, place.get(node.id).y, width)));
}
