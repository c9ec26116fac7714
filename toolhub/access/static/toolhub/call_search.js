// A search of the audit log goes on by itself: rows are added until the page is full, then the calls are counted.
// Each request is one short step of the server; it ends with the page, or with Stop.
"use strict";

(() => {
  const state = document.getElementById("search-state");
  if (!state) return;
  const PAUSE_MS = 100;
  const MAX_COUNTED = 10000;
  const MAX_CLIENTS = 5;
  const table = document.getElementById("result_list");
  const progress = state.querySelector("[data-progress]");
  const total = state.querySelector("[data-total]");
  const callers = state.querySelector("[data-clients]");
  const stop = state.querySelector("[data-stop]");
  const names = new Map(JSON.parse(document.getElementById("status-names").textContent));
  const maxRows = Number(state.dataset.maxRows);
  const control = new AbortController();
  let rows = Number(state.dataset.rows);

  const step = async (parameters) => {
    const address = new URL(state.dataset.url, location.href);
    for (const [name, value] of Object.entries(parameters)) if (value) address.searchParams.set(name, value);
    const answer = await fetch(address, { credentials: "same-origin", signal: control.signal });
    if (window.toolhub.isSignedOut(answer)) {
      control.abort();
      control.signal.throwIfAborted();
    }
    if (!answer.ok) throw new Error(String(answer.status));
    await new Promise((done) => setTimeout(done, PAUSE_MS));
    control.signal.throwIfAborted();
    return answer.json();
  };
  const number = (value) => value.toLocaleString(document.documentElement.lang || undefined);
  const say = (found, backTo) => {
    const text = ngettext("Searched back to %(at)s, %(found)s call found", "Searched back to %(at)s, %(found)s calls found", found);
    progress.textContent = interpolate(text, { at: backTo, found: number(found) }, true);
  };

  const pageState = (answer) => {
    document.getElementById("page-count").textContent = interpolate(gettext("%s on this page"), [number(rows)]);
    const note = document.getElementById("searched-back");
    const link = document.querySelector("a[rel=next]");
    if (answer.older && link) {
      const address = new URL(link.href);
      address.searchParams.set("before", answer.older);
      link.href = address;
      if (!answer.back_to) link.textContent = `${gettext("Older")} →`;
    } else if (link) link.remove();
    if (note && answer.back_to) note.textContent = interpolate(gettext("Searched back to %s. Older entries were not searched."), [answer.back_to]);
    else if (note) note.remove();
  };

  const fill = async () => {
    let older = state.dataset.older;
    while (older && rows < maxRows) {
      const answer = await step({ before: older, rows: maxRows - rows });
      table.tBodies[0].insertAdjacentHTML("beforeend", answer.rows);
      rows += answer.found;
      const nothing = document.getElementById("nothing");
      if (nothing && rows) nothing.remove();
      else if (nothing && !answer.older) nothing.firstElementChild.textContent = gettext("No entries match this search and these filters.");
      table.hidden = !rows;
      pageState(answer);
      document.dispatchEvent(new CustomEvent("toolhub:rows"));
      older = answer.back_to ? answer.older : "";
      if (older) say(rows, answer.back_to);
    }
  };

  // Of the counted calls: with `isPartial`, there are older ones.
  const listClients = (clients, isPartial) => {
    const most = [...clients].sort((one, other) => other[1] - one[1]);
    const names = most.slice(0, MAX_CLIENTS).map(([name, calls]) => `${name} ${number(calls)}`);
    const more = most.length - names.length;
    if (more) names.push(interpolate(ngettext("%s more client", "%s more clients", more), [number(more)]));
    const text = isPartial ? gettext("Clients of the newest: %s") : gettext("Clients: %s");
    return interpolate(text, [names.join(", ")]);
  };

  const count = async () => {
    const counts = new Map();
    let clients = new Map();
    let found = 0;
    let older = "";
    do {
      const answer = await step({ before: older });
      for (const [status, calls] of Object.entries(answer.counts)) counts.set(status, (counts.get(status) || 0) + calls);
      // Without the names of one step, the sums would be wrong.
      clients = answer.clients && clients;
      for (const [name, calls] of Object.entries((clients && answer.clients) || {})) clients.set(name, (clients.get(name) || 0) + calls);
      found += answer.found;
      older = answer.older;
      if (older) say(found, answer.back_to);
    } while (older && found < MAX_COUNTED);
    const text = older
      ? interpolate(gettext("More than %s calls found"), [number(found)])
      : interpolate(ngettext("%s call found", "%s calls found", found), [number(found)]);
    const byStatus = [...counts].sort((one, other) => other[1] - one[1]).map(([status, calls]) => `${names.get(status) || status} ${number(calls)}`);
    progress.textContent = "";
    if (clients && clients.size) callers.textContent = listClients(clients, older);
    total.textContent = [text, ...(counts.size > 1 ? [byStatus.join(", ")] : [])].join(": ");
  };

  stop.addEventListener("click", () => control.abort());
  addEventListener("pagehide", () => control.abort());
  state.hidden = false;
  state.dataset.filling = "";
  (async () => {
    try {
      try {
        await fill();
      } finally {
        // A live list adds its rows from now on.
        delete state.dataset.filling;
        document.dispatchEvent(new CustomEvent("toolhub:filled"));
      }
      await count();
    } catch (error) {
      if (!control.signal.aborted) progress.textContent = gettext("The search stopped: the server did not answer. Reload this page.");
    }
    stop.hidden = true;
  })();
})();
