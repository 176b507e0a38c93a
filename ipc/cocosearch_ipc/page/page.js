// The status page: shows the state of the daemon, refreshed every few seconds while the page is visible, and searches.

import { bars, latency, round, shares } from "./charts.js";
import { ask, rememberToken } from "./daemon.js";
import { modulesAddress, showGraph, symbolAddress } from "./graph_view.js";

const REFRESH_MS = 3000;
const TYPING_MS = 250;
const LANGUAGES = 8;
const COMMON = new Set("the and for are was how who why does what when where which with from this that into not all".split(" "));
const HEALTH = ["ok", "partial", "error", "no_grammar"];
const SHOWN_LINES = 120; // of a place: more than context and a chunk of the default size have
const SIMILAR_PATHS = 3; // as in render/answers.py
const GAP = "…"; // a line of context that stands for lines that are left out
const FOUND_BY = { both: "words and meaning", keyword: "words", semantic: "meaning" };
const at = (id) => document.getElementById(id);

// Texts only: nothing the daemon says is ever read as HTML.
function element(name, { class: kind, text, ...attributes } = {}, ...children) {
  const node = document.createElement(name);
  if (kind) node.className = kind;
  if (text !== undefined) node.textContent = text;
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

const number = (n) => n.toLocaleString("en");
const plural = (n, word) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;

// As `size` of render/tables.py: a number has one text on the page and on a terminal.
function size(bytes) {
  let step = 0;
  for (; bytes >= 1000 && step < 4; step += 1) bytes /= 1000;
  return `${bytes.toFixed(step ? 1 : 0)} ${["B", "kB", "MB", "GB", "TB"][step]}`;
}

function duration(seconds) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const [unit, name] = parts.find(([length]) => seconds >= length) ?? [1, "s"];
  return `${Math.floor(seconds / unit)} ${name}`;
}

// ---- the daemon ----

const counted = new Map(); // index -> {generation, stats}

async function refresh() {
  try {
    const status = await ask("status");
    at("trouble").hidden = true;
    showDaemon(status);
    await count(status.indexes);
    showIndexes(status.indexes);
  } catch (error) {
    showTrouble(error);
  }
}

async function count(indexes) {
  for (const index of indexes) {
    if (counted.get(index.name)?.generation !== index.generation && index.files >= 0) {
      const stats = await ask("index_stats", { index: index.name, sync_timeout_ms: 0 }).catch(() => null);
      if (stats) counted.set(index.name, { generation: index.generation, stats });
    }
  }
}

function showTrouble(error) {
  pill(at("health"), "bad", error.status === 401 ? "locked" : "away");
  const advice = error.status === 401 ? "Open the page with `cocosearchctl status --open`: the address needs its token." : error.hint;
  at("trouble").textContent = `${error.message} ${advice ?? ""}`;
  at("trouble").hidden = false;
}

function pill(place, kind, text) {
  place.className = `pill ${kind}`;
  if (place.textContent !== text) place.textContent = text; // else a screen reader would say it again
}

function showDaemon(status) {
  const states = status.indexes.map(kindOf);
  const worst = ["bad", "busy", "good"].find((kind) => states.includes(kind)) ?? "idle";
  pill(at("health"), worst, { bad: "needs a look", busy: "catching up", good: "fresh", idle: "no index yet" }[worst]);
  at("about").textContent = `version ${status.version} · up ${duration(status.uptime_s)} · pid ${status.pid}`;
  const queries = status.queries ?? {};
  const { hits, misses } = cacheCounts(status.cache);
  at("tiles").replaceChildren(
    tile("Queries", number(queries.count ?? 0), queries.p50_ms !== undefined ? `median ${round(queries.p50_ms)} ms` : "none yet"),
    tile("Cache", hits + misses ? `${Math.round((100 * hits) / (hits + misses))}%` : "–", `${plural(hits, "hit")}, ${number(misses)} computed`),
    tile("Memory", size(status.rss_bytes.total ?? 0), memory(status.rss_bytes)),
    tile("Store", status.store.state ?? "?", `${status.store.kind ?? ""} ${status.store.server ? `PostgreSQL ${status.store.server}` : ""}`),
    tile("Model", works(status.embedder) ? status.embedder.provider ?? "?" : status.embedder.state, status.embedder.model ?? status.embedder.provider ?? ""),
    tile("Indexer", status.worker.state ?? "?", plural(status.indexes.reduce((sum, index) => sum + index.pending, 0), "change") + " pending"),
  );
  const recent = queries.recent_ms ?? [];
  at("latency").replaceChildren(
    recent.length ? latency(recent, queries.p50_ms, queries.p95_ms) : element("p", { class: "quiet", text: "No query yet. Ask something above." }),
  );
  const broken = [["store", status.store], ["model", status.embedder], ["indexer", status.worker]].flatMap(([name, part]) => trouble(name, part));
  const warnings = [...(status.warnings ?? []), ...broken];
  at("trouble").textContent = warnings.join("\n");
  at("trouble").hidden = !warnings.length;
}

function works(part) {
  return !["down", "unresponsive"].includes(part.state);
}

function trouble(name, part) {
  if (works(part)) return [];
  const since = part.since ? ` since ${new Date(part.since).toLocaleTimeString()}` : "";
  return [`The ${name} is ${part.state}${since}: ${[part.reason ?? part.error, part.hint].filter(Boolean).join("; ")}`];
}

function cacheCounts(cache) {
  const sum = (part) => Object.entries(cache).filter(([name]) => name.includes(part)).reduce((all, [, n]) => all + n, 0);
  return { hits: sum("hit"), misses: sum("miss") };
}

function memory(bytes) {
  return ["daemon", "worker", "postgres"].filter((name) => bytes[name]).map((name) => `${name} ${size(bytes[name])}`).join(" · ");
}

function tile(name, value, note) {
  return element("div", { class: "tile" }, element("h3", { text: name }), element("p", { class: "value", text: value }), element("p", { class: "quiet", text: note }));
}

// ---- the indexes ----

function kindOf(index) {
  if (["failed", "refused", "root_missing", "degraded", "lost"].includes(index.state)) return "bad";
  return index.state === "live" && index.pending === 0 ? "good" : "busy";
}

function showIndexes(indexes) {
  const chosen = at("where").value;
  const options = indexes.map((index) => element("option", { value: index.name, text: index.name }));
  at("where").replaceChildren(element("option", { value: "", text: "every index" }), ...options);
  at("where").value = indexes.some((index) => index.name === chosen) ? chosen : "";
  const none = element("p", { class: "card quiet", text: "Nothing is indexed yet: cocosearchctl up ~/code/project" });
  const open = new Set([...document.querySelectorAll("#indexes details[open]")].map((details) => details.dataset.index));
  const focused = document.activeElement?.closest("#indexes a")?.getAttribute("href");
  at("indexes").replaceChildren(...(indexes.length ? indexes.map((index) => card(index, open.has(index.name))) : [none]));
  if (focused) [...document.querySelectorAll("#indexes a")].find((link) => link.getAttribute("href") === focused)?.focus();
}

function card(index, open) {
  const kind = kindOf(index);
  const stats = counted.get(index.name)?.stats;
  const state = element("span");
  pill(state, kind, index.pending ? `${index.state}, ${number(index.pending)} pending` : index.state);
  const node = element("article", { class: "card", "aria-label": `Index ${index.name}` });
  node.append(
    element("div", { class: "head" }, element("h3", { text: index.name }), state, element("code", { class: "quiet", text: index.root })),
    element("p", { class: "facts" }, ...facts(index, stats)),
  );
  if (index.pending && index.files > 0) {
    node.append(element("progress", { max: index.files + index.pending, value: index.files, "aria-label": `${index.name} indexed` }));
  }
  if (index.reason) node.append(element("p", { class: "trouble", text: index.reason }));
  if (stats) node.append(charts(stats));
  if (index.files > 0) node.append(element("p", {}, element("a", { href: modulesAddress(index.name), text: "modules", "aria-label": `Modules of ${index.name}` })));
  if (index.failed.length) node.append(failures(index, open));
  return node;
}

function facts(index, stats) {
  const parts = [plural(Math.max(0, index.files), "file"), plural(Math.max(0, index.chunks), "chunk")];
  const skipped = Object.values(index.skipped ?? {}).reduce((all, one) => all + one, 0);
  if (skipped) parts.splice(1, 0, `${number(skipped)} skipped`);
  if (stats) parts.push(plural(stats.symbols, "symbol"), size(stats.size_bytes));
  if (index.as_of) parts.push(`clock ${index.as_of.seq}`);
  if (index.watcher) parts.push(index.watcher);
  if (stats?.last_change) parts.push(`changed ${new Date(stats.last_change).toLocaleString()}`);
  return parts.map((text) => element("span", { text }));
}

function charts(stats) {
  const languages = Object.entries(stats.languages).sort(([, a], [, b]) => b.files - a.files).slice(0, LANGUAGES);
  const health = Object.entries(stats.parse_health)
    .map(([name, counts]) => ({ name, parts: HEALTH.map((kind) => [kind, counts[kind] ?? 0]) }))
    .filter(({ parts }) => parts.some(([, n]) => n))
    .sort((a, b) => sum(b) - sum(a))
    .slice(0, LANGUAGES);
  const legend = element("p", { class: "legend" }, ...HEALTH.map((kind) => element("span", { class: kind, text: kind.replace("_", " ") })));
  const rows = languages.map(([name, { files }]) => ({ name, value: files, note: number(files) }));
  return element(
    "div",
    { class: "pair" },
    element("figure", {}, element("figcaption", { text: "Files by language" }), bars(rows, "Files by language")),
    element("figure", {}, element("figcaption", { text: "How well files parse" }), shares(health, "Parse health"), legend),
  );
}

const sum = ({ parts }) => parts.reduce((all, [, n]) => all + n, 0);

function failures(index, open) {
  const list = index.failed.map((file) => element("li", {}, element("code", { text: file.path }), ` ${file.error}`));
  const node = element("details", {}, element("summary", { text: `${plural(index.failed_count, "file")} failed` }), element("ul", {}, ...list));
  node.dataset.index = index.name;
  node.open = open;
  return node;
}

// ---- the search ----

let asking = new AbortController();
let typing = 0;

async function search() {
  asking.abort();
  asking = new AbortController();
  const query = at("query").value.trim();
  at("answers").hidden = !query;
  if (!query) return;
  const where = at("where").value;
  const began = performance.now();
  at("answers").setAttribute("aria-busy", "true");
  try {
    const reply = await ask("search", { query, limit: 10, ...(where ? { index: where } : { all_indexes: true }) }, asking.signal);
    showAnswers(reply, performance.now() - began);
  } catch (error) {
    if (error.name === "AbortError") return;
    at("summary").textContent = `${error.message} ${error.hint ?? ""}`;
    at("results").replaceChildren();
  }
  at("answers").removeAttribute("aria-busy");
}

function showAnswers(reply, tookMs) {
  const where = reply.index ?? plural((reply.indexes ?? []).length, "index").replace("indexs", "indexes");
  // the first words of `WEAK_NOTICE` in render/answers.py
  const weak = reply.weak ? ["nothing matches well"] : [];
  const fresh = reply.fresh ? "fresh" : `not fresh: ${reply.stale_reason}`;
  const took = `${round(reply.timings_ms.total ?? tookMs)} ms`;
  at("summary").textContent = [...weak, `${plural(reply.results.length, "answer")} of ${where}`, took, fresh, ...reply.notes].join(" · ");
  const words = (reply.query.toLowerCase().match(/[\p{L}\p{N}_]{3,}/gu) ?? []).filter((word) => !COMMON.has(word));
  const several = !reply.index;
  at("results").replaceChildren(...reply.results.map((result) => answer(result, words, several)));
  document.querySelectorAll("#results .best").forEach(scrollTo);
}

function answer(result, words, several) {
  const place = `${several ? `${result.index}: ` : ""}${result.path}:${result.start_line}`;
  const symbol = result.symbol_name ? `${result.symbol_type} ${result.symbol_name}` : result.language;
  const head = element("summary", {}, element("span", { class: "path", text: place }), element("span", { class: "symbol", text: symbol }));
  head.append(relevance(result));
  if (result.stale) head.append(element("span", { class: "pill busy", text: "changed since" }));
  const node = element("details", { open: "" }, head, code(numberedLines(result), result.line, words));
  if (result.also.length) node.append(element("ul", { class: "also" }, ...result.also.map((entry) => otherPlace(result, entry))));
  const notes = element("p", { class: "links" }, ...relatedPlaces(result));
  if (result.symbol_name) {
    const address = symbolAddress(result.index, result.path, result.line || result.start_line);
    notes.append(element("a", { href: address, text: "callers and callees" }));
  }
  if (notes.childNodes.length) node.append(notes);
  return element("li", {}, node);
}

function relevance(result) {
  const percent = `${Math.round(100 * result.relevance)} %`;
  const meter = element("meter", { min: "0", max: "1", value: String(result.relevance), "aria-label": `relevance ${percent}` });
  return element("span", { class: "score quiet", title: `relevance; found by ${FOUND_BY[result.match_type] ?? result.match_type}` }, meter, ` ${percent}`);
}

function otherPlace(result, entry) {
  const node = element("li", { title: `lines ${entry.start_line} to ${entry.end_line}` }, element("span", { class: "path", text: `:${entry.line}` }));
  if (entry.symbol_name) node.append(element("span", { class: "symbol", text: entry.symbol_name }));
  node.append(element("code", { class: "quiet", text: entry.text }));
  if (entry.similar_lines.length) node.append(element("span", { class: "quiet", text: `alike: ${entry.similar_lines.join(", ")}` }));
  return node;
}

function relatedPlaces(result) {
  const spans = [];
  if (result.similar_lines.length) spans.push(element("span", { class: "quiet", text: `alike in this file: ${result.similar_lines.join(", ")}` }));
  if (result.frame_lines.length) spans.push(element("span", { class: "quiet", text: `in the stack trace: ${result.frame_lines.join(", ")}` }));
  if (result.counterparts.length) spans.push(element("span", { class: "quiet", text: `belongs with ${result.counterparts.join(", ")}` }));
  if (!result.similar) return spans;
  const more = result.similar > SIMILAR_PATHS ? ", …" : "";
  const text = `${result.similar} alike: ${result.similar_paths.slice(0, SIMILAR_PATHS).join(", ")}${more}`;
  return [...spans, element("span", { class: "quiet similar", title: result.similar_paths.join("\n"), text })];
}

// Pairs of number and text. Lines above a gap are far from the place, and have no number.
function numberedLines(result) {
  const lines = (text) => (text ? text.replace(/\n$/, "").split("\n") : []);
  const before = lines(result.context_before);
  const gap = before.lastIndexOf(GAP);
  const all = [...before, ...lines(result.content), ...lines(result.context_after)];
  return all.slice(0, SHOWN_LINES).map((text, n) => [n > gap ? result.start_line - before.length + n : "", text]);
}

function code(lines, best, words) {
  const node = element("pre", { tabindex: "0" });
  const pattern = words.length ? new RegExp(`(${words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`, "giu") : null;
  lines.forEach(([number, line]) => {
    node.append(element("span", { class: number === best ? "line best" : "line", text: String(number) }));
    const parts = pattern ? line.split(pattern) : [line];
    parts.forEach((part, at) => node.append(at % 2 ? element("mark", { text: part }) : part));
    node.append("\n");
  });
  return node;
}

// Show the best line of a long place, and some lines above it.
function scrollTo(line) {
  const box = line.closest("pre");
  const top = line.offsetTop - box.offsetTop;
  if (top > box.clientHeight - line.offsetHeight) box.scrollTop = top - box.clientHeight / 3;
}

// ---- keys ----

function walk(step) {
  const stops = [at("query"), ...document.querySelectorAll("#results summary")];
  const now = stops.indexOf(document.activeElement);
  if (now < 0) return false;
  stops[Math.min(stops.length - 1, Math.max(0, now + step))].focus();
  return true;
}

document.addEventListener("keydown", (event) => {
  const typed = ["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement?.tagName);
  if (event.key === "/" && !typed && !event.ctrlKey && !event.metaKey) {
    at("query").focus();
    at("query").select();
  } else if (event.key === "Escape") {
    at("query").value = "";
    at("query").focus();
    search();
  } else if (!["ArrowDown", "ArrowUp"].includes(event.key) || document.activeElement === at("where") || !walk(event.key === "ArrowDown" ? 1 : -1)) {
    return;
  }
  event.preventDefault();
});

at("search").addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(typing);
  search();
});
at("query").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(search, TYPING_MS);
});
at("where").addEventListener("change", search);

async function keepRefreshing() {
  if (document.visibilityState === "visible") await refresh();
  setTimeout(keepRefreshing, REFRESH_MS);
}

window.addEventListener("hashchange", () => rememberToken() && refresh());
rememberToken();
keepRefreshing();
showGraph();
at("query").focus();
