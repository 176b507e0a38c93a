// Small charts as SVG. Each has its numbers in a label as well: colour or shape alone carries no information.

const SVG = "http://www.w3.org/2000/svg";

export function shape(name, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function picture(width, height, label, ...children) {
  return shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...children);
}

export function text(x, y, words, attributes = {}) {
  return shape("text", { x, y, ...attributes }, words);
}

// Rows of {name, value, note}: one bar a row.
export function bars(rows, label) {
  const most = Math.max(1, ...rows.map((row) => row.value));
  const height = rows.length * 26;
  const parts = rows.flatMap((row, at) => [
    text(0, at * 26 + 17, row.name, { class: "name" }),
    shape("rect", { x: 130, y: at * 26 + 5, width: 330, height: 16, rx: 3, class: "track" }),
    shape("rect", { x: 130, y: at * 26 + 5, width: Math.max(2, (330 * row.value) / most), height: 16, rx: 3, class: "bar" }),
    text(560, at * 26 + 17, row.note, { class: "note", "text-anchor": "end" }),
  ]);
  return picture(560, height, `${label}: ${rows.map((row) => `${row.name} ${row.note}`).join(", ")}`, ...parts);
}

// Rows of {name, parts: [[kind, count]]}: one bar a row, in shares of the row.
export function shares(rows, label) {
  const descriptions = [];
  const drawn = rows.flatMap((row, at) => {
    const total = row.parts.reduce((sum, [, count]) => sum + count, 0);
    descriptions.push(`${row.name} ${row.parts.filter(([, n]) => n).map(([kind, n]) => `${n} ${kind}`).join(" ")}`);
    let x = 130;
    const pieces = row.parts.filter(([, count]) => count > 0).map(([kind, count]) => {
      const width = (330 * count) / total;
      const piece = shape("rect", { x, y: at * 26 + 5, width: Math.max(1.5, width - 1), height: 16, class: `share ${kind}` });
      piece.append(shape("title", {}, `${row.name}: ${count} ${kind}`));
      x += width;
      return piece;
    });
    const good = row.parts.find(([kind]) => kind === "ok")?.[1] ?? 0;
    const unknown = row.parts.find(([kind]) => kind === "no_grammar")?.[1] === total;
    const note = unknown ? `no grammar, ${total}` : `${((100 * good) / total).toFixed(good === total ? 0 : 1)}% of ${total}`;
    return [text(0, at * 26 + 17, row.name, { class: "name" }), ...pieces, text(560, at * 26 + 17, note, { class: "note", "text-anchor": "end" })];
  });
  return picture(560, rows.length * 26, `${label}: ${descriptions.join("; ")}`, ...drawn);
}

// Milliseconds, oldest first; lines at the median and the 95th percentile. The scale is logarithmic.
export function latency(values, p50, p95) {
  const [width, height, left, bottom] = [880, 180, 52, 20];
  const low = Math.min(...values, 1) || 0.1;
  const high = Math.max(...values, p95, low * 10);
  const y = (ms) => 8 + (height - bottom - 16) * (1 - Math.log(Math.max(ms, low) / low) / Math.log(high / low));
  const x = (at) => left + ((width - left - 90) * (at + 0.5)) / values.length;
  const parts = [];
  for (let ms = 10 ** Math.ceil(Math.log10(low)); ms <= high; ms *= 10) {
    parts.push(shape("line", { x1: left, x2: width - 90, y1: y(ms), y2: y(ms), class: "grid" }));
    parts.push(text(left - 8, y(ms) + 4, `${ms} ms`, { class: "note", "text-anchor": "end" }));
  }
  for (const [name, ms, kind] of [["p95", p95, "p95"], ["median", p50, "p50"]]) {
    parts.push(shape("line", { x1: left, x2: width - 90, y1: y(ms), y2: y(ms), class: `mark ${kind}` }));
    const isClose = name === "p95" && Math.abs(y(p95) - y(p50)) < 14; // their texts would overlap
    parts.push(text(width - 84, isClose ? y(p50) - 10 : y(ms) + 4, `${name} ${round(ms)}`, { class: `note ${kind}` }));
  }
  values.forEach((ms, at) => {
    const dot = shape("circle", { cx: x(at), cy: y(ms), r: 3.5, class: "dot" });
    dot.append(shape("title", {}, `${round(ms)} ms`));
    parts.push(dot);
  });
  parts.push(text(left, height - 4, "older", { class: "note" }));
  parts.push(text(width - 90, height - 4, "now", { class: "note", "text-anchor": "end" }));
  const label = `Latency of ${values.length} queries: median ${round(p50)} ms, 95th percentile ${round(p95)} ms`;
  return picture(width, height, label, ...parts);
}

export function round(ms) {
  return ms >= 100 ? ms.toFixed(0) : ms >= 10 ? ms.toFixed(1) : ms.toFixed(2);
}
