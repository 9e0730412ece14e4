// Elements from a tag, its attributes, and its children (nodes or texts).

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false && value != null) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== "" && child != null));
  return made;
}

const TOKEN = /(#[^\n]*|"""[\s\S]*?"""|'''[\s\S]*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\b(?:and|as|assert|async|await|break|class|continue|def|del|elif|else|except|False|finally|for|from|global|if|import|in|is|lambda|None|nonlocal|not|or|pass|raise|return|True|try|while|with|yield|SUBMIT|llm_query|llm_query_batched|rlm_query|rlm_query_batched)\b)/;

// Python with its comments, strings and keywords marked.
export function python(code) {
  return code.split(TOKEN).filter(Boolean).map((piece) => {
    if (piece.startsWith("#")) return element("span", { class: "com" }, piece);
    if (/^["']/.test(piece)) return element("span", { class: "str" }, piece);
    return TOKEN.test(piece) ? element("span", { class: "kw" }, piece) : document.createTextNode(piece);
  });
}
