// Python with its comments, strings and keywords marked.

import { element } from "./dom.js";

const KEYWORDS = "and as assert async await break class continue def del elif else except False finally for from global " +
  "if import in is lambda None nonlocal not or pass raise return True try while with yield " +
  "SUBMIT llm_query llm_query_batched rlm_query rlm_query_batched";
const STRINGS = String.raw`"""[\s\S]*?"""|'''[\s\S]*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'`;
const TOKEN = new RegExp(String.raw`(#[^\n]*|${STRINGS}|\b(?:${KEYWORDS.replaceAll(" ", "|")})\b)`);

export function python(code) {
  // Every second piece is what the expression has matched.
  return code.split(TOKEN).map((piece, index) => {
    if (index % 2 === 0) return document.createTextNode(piece);
    const kind = piece.startsWith("#") ? "com" : /^["']/.test(piece) ? "str" : "kw";
    return element("span", { class: kind }, piece);
  });
}
