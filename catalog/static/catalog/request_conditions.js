// The page of one request for a tool: the conditions of the grant as rows, on top of the JSON that is sent.
// The page loads admin/jsi18n/ before: gettext and interpolate, with the texts of djangojs.po.

import { ConditionRows } from "./condition_rows.js";

const textarea = document.querySelector("textarea[data-conditions]");
const data = JSON.parse(textarea.dataset.conditions);
const conditions = new ConditionRows(textarea, data.lists, gettext("No conditions. The grant allows all calls."));

async function start() {
  conditions.offer(await conditions.load(data.arguments), false);
  conditions.start();
  conditions.root.setAttribute("aria-busy", "false");
}
start();
