// The little Markdown that answers use, built as DOM nodes so that no answer can bring markup of its own.

import { element } from "./dom.js";

const INLINE = /(`[^`\n]+`|\*\*[^*\n]+\*\*|\[[^\]\n]+\]\(https?:\/\/[^)\s]+\)|https?:\/\/[^\s<>"')\]]+)/;
const ITEM = /^(\s*)([-*]|\d+[.)]) +/;
const RULE = /^\|?[\s:|-]*-[\s:|-]*\|?$/;

function inline(text) {
  return text.split(INLINE).map((piece, index) => {
    if (index % 2 === 0) return document.createTextNode(piece);
    if (piece.startsWith("`")) return element("code", {}, piece.slice(1, -1));
    if (piece.startsWith("**")) return element("strong", {}, piece.slice(2, -2));
    const [, label, url] = piece.match(/^\[(.+)\]\((.+)\)$/) || [null, piece, piece];
    return element("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, label);
  });
}

function table(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
  const row = (line, tag) => element("tr", {}, ...cells(line).map((cell) => element(tag, {}, ...inline(cell))));
  const body = lines.slice(2).map((line) => row(line, "td"));
  return element("div", { class: "wide" }, element("table", {}, row(lines[0], "th"), ...body));
}

// A list and the lists in it; a line without a mark goes on with the item before it.
function list(lines) {
  const depth = lines[0].match(ITEM)[1].length;
  const items = [];
  for (const line of lines) {
    const mark = line.match(ITEM);
    if (mark && mark[1].length <= depth) items.push({ text: line.slice(mark[0].length), inner: [] });
    else if (mark || items.at(-1).inner.length) items.at(-1).inner.push(line);
    else items.at(-1).text += ` ${line.trim()}`;
  }
  const start = parseInt(lines[0].trim(), 10);
  const made = items.map(({ text, inner }) => element("li", {}, ...inline(text), inner.length ? list(inner) : ""));
  return Number.isNaN(start) ? element("ul", {}, ...made) : element("ol", { start }, ...made);
}

function block(lines) {
  const first = lines[0];
  if (/^#{1,6} /.test(first)) return element("h3", {}, ...inline(first.replace(/^#+ /, "")));
  if (first.startsWith("```")) return element("pre", {}, lines.slice(1).filter((line) => line !== "```").join("\n"));
  if (first.startsWith(">")) {
    return element("blockquote", {}, ...inline(lines.map((line) => line.replace(/^> ?/, "")).join("\n")));
  }
  if (lines.length > 1 && first.includes("|") && RULE.test(lines[1])) return table(lines);
  if (ITEM.test(first)) return list(lines);
  return element("p", {}, ...inline(lines.join("\n")));
}

const kind = (line) => (/^#{1,6} /.test(line) ? "heading" : line.startsWith(">") ? "quote"
  : ITEM.test(line) ? "list" : line.includes("|") ? "table" : "text");

const goesOn = (first, line) => (kind(first) === "list" ? /^\s/.test(line) || kind(line) === "list"
  : kind(line) === kind(first) && kind(line) !== "heading");

export function markdown(text) {
  const blocks = [];
  let current = [];
  let fenced = false;
  const flush = () => { if (current.length) blocks.push(block(current)); current = []; };
  for (const line of text.split("\n")) {
    if (fenced) {
      current.push(line);
      if (line === "```") { fenced = false; flush(); }
    } else if (line.startsWith("```")) {
      flush();
      fenced = true;
      current.push(line);
    } else if (!line.trim()) {
      flush();
    } else {
      if (current.length && !goesOn(current[0], line)) flush();
      current.push(line);
    }
  }
  flush();
  return blocks;
}
