// The list of Sessions.

import * as api from "./api.js";
import { counted, element } from "./dom.js";

const when = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "numeric", minute: "2-digit" });

function item(session, current, { open, report }) {
  const choose = element("button", { type: "button", class: "open", "aria-current": session.id === current },
    element("b", {}, session.title || "Untitled"),
    element("small", {}, `${when.format(new Date(session.update_time))} · ${counted(session.checkpoint_version, "Turn")}`));
  choose.addEventListener("click", () => open(session.id));
  const remove = element("button", { type: "button", class: "delete", "aria-label": `Delete ${session.title}`, title: "Delete" }, "×");
  remove.addEventListener("click", async () => {
    if (!confirm(`Delete “${session.title || "Untitled"}” with its Turns?`)) return;
    try {
      await api.deleteSession(session.id);
      open(session.id === current ? null : current);
    } catch (error) {
      report(error);
    }
  });
  return element("li", { class: session.id === current ? "current" : "" }, choose, remove);
}

export async function showSessions(current, actions) {
  const { sessions } = await api.listSessions();
  const items = sessions.map((session) => item(session, current, actions));
  const list = document.getElementById("sessions");
  list.replaceChildren(...(items.length ? items : [element("li", { class: "empty" }, "No Sessions yet")]));
}
