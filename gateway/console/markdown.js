// The little Markdown that answers use, built as DOM nodes so that no answer can bring markup of its own.

import { element } from "./dom.js";

const INLINE = /(`[^`]+`|\*\*[^*]+\*\*)/;

function inline(text) {
  return text.split(INLINE).filter(Boolean).map((piece) => {
    if (piece.startsWith("`") && piece.length > 2) return element("code", {}, piece.slice(1, -1));
    if (piece.startsWith("**") && piece.length > 4) return element("strong", {}, piece.slice(2, -2));
    return document.createTextNode(piece);
  });
}

function table(lines) {
  const cells = (line) => line.replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
  const [head, , ...rows] = lines;
  return element("table", {},
    element("tr", {}, ...cells(head).map((cell) => element("th", {}, ...inline(cell)))),
    ...rows.map((row) => element("tr", {}, ...cells(row).map((cell) => element("td", {}, ...inline(cell))))));
}

function block(lines) {
  const first = lines[0];
  if (/^#{1,6} /.test(first)) return element("h3", {}, ...inline(first.replace(/^#+ /, "")));
  if (first.startsWith("```")) return element("pre", {}, lines.slice(1).filter((line) => line !== "```").join("\n"));
  if (lines.every((line) => line.startsWith(">"))) {
    return element("blockquote", {}, ...inline(lines.map((line) => line.replace(/^> ?/, "")).join("\n")));
  }
  if (lines.length > 1 && /^\|?[\s:|-]+\|?$/.test(lines[1]) && first.includes("|")) return table(lines);
  if (/^\s*([-*]|\d+\.) /.test(first)) {
    const items = lines.map((line) => element("li", {}, ...inline(line.replace(/^\s*([-*]|\d+\.) /, ""))));
    return element(/^\s*\d/.test(first) ? "ol" : "ul", {}, ...items);
  }
  return element("p", {}, ...inline(lines.join("\n")));
}

const kind = (line) => (/^#{1,6} /.test(line) ? "heading" : line.startsWith(">") ? "quote"
  : /^\s*([-*]|\d+\.) /.test(line) ? "list" : line.includes("|") ? "table" : "text");

export function markdown(text) {
  const blocks = [];
  let current = [];
  let fenced = false;
  const flush = () => { if (current.length) blocks.push(block(current)); current = []; };
  for (const line of text.split("\n")) {
    if (fenced) { current.push(line); if (line === "```") { fenced = false; flush(); } continue; }
    if (line.startsWith("```")) { flush(); fenced = true; current.push(line); continue; }
    if (!line.trim()) { flush(); continue; }
    if (current.length && (kind(line) !== kind(current[0]) || kind(line) === "heading")) flush();
    current.push(line);
  }
  flush();
  return blocks;
}
