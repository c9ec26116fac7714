// The page of one request for a tool: the conditions of the grant as rows, on top of the JSON that is sent.
// The page loads admin/jsi18n/ before: gettext and interpolate, with the texts of djangojs.po.

import { ConditionRows } from "./condition_rows.js";
import { parse } from "./json_text.js";
import { make } from "./page_parts.js";

const textarea = document.querySelector("textarea[data-conditions]");
const data = JSON.parse(textarea.dataset.conditions);
const conditions = new ConditionRows(textarea, data.lists, gettext("No conditions. The grant allows all calls."));
const note = make("p", { class: "tool-note", role: "status" });
conditions.root.prepend(note);

async function start() {
  let found = null;
  try {
    const answer = await fetch(data.arguments, { headers: { Accept: "application/json" } });
    if (window.toolhub.isSignedOut(answer) || !answer.ok) throw new Error(String(answer.status));
    found = parse(await answer.text());
  } catch {
    note.textContent = gettext("The arguments could not be loaded. Enter their paths, such as /region.");
  }
  if (found && !found.get("arguments").length) note.textContent = gettext("No condition is possible here: there are no arguments.");
  conditions.offer(found, false);
  conditions.start();
  conditions.root.dataset.ready = "yes";
}
start();
