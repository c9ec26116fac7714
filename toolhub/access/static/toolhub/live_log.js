// The list of calls in the admin, live: new calls of the page's own filters appear at its top, and running ones end.
//
// The server only says that something changed; the page reads its newest rows with the step of its own search. Nobody is
// moved: who has scrolled down, selected a text, ticked a row or is in the table by keyboard is told how many are new.
"use strict";

(() => {
  const section = document.getElementById("live");
  const table = document.getElementById("result_list");
  if (!section || !table) return;
  const { watch, onState, coalesce } = window.toolhub;
  const EVERY_MS = 1000;
  const SPREAD_MS = 300;
  const MAX_WAIT_MS = 30000;
  const SHARE = 5; // of the time that an answer took: a slow search is asked for less often
  const maxRows = Number(section.dataset.rows);
  const button = section.querySelector("[role=switch]");
  const light = document.getElementById("live-state");
  const fresh = document.querySelector("[data-fresh]");
  const search = document.getElementById("search-state");
  const body = table.tBodies[0];
  let stopWatching = null;
  let connection = "";
  let failures = 0;
  let missed = false;
  let held = null;
  let retry = 0;
  let knownUntil = section.dataset.knownUntil; // the page has every call of its filters that began before, or a link to it

  // --- the switch, its state, and the address that remembers it
  const say = (state) => {
    const text = section.dataset[`${state}Text`] || "";
    light.dataset.state = state;
    if (light.textContent !== text) light.textContent = text;
  };
  const tell = () => {
    if (stopWatching) say(connection === "live" && failures ? "waiting" : connection);
  };

  const remember = (on) => {
    const mark = (address) => {
      const url = new URL(address, location.href);
      if (on) url.searchParams.set("live", "1");
      else url.searchParams.delete("live");
      return url;
    };
    history.replaceState(history.state, "", mark(location.href));
    for (const link of document.querySelectorAll('a[href^="?"]')) link.setAttribute("href", mark(link.href).search || "?");
    for (const form of document.querySelectorAll('form[method="get"]:not([action])')) {
      for (const field of form.querySelectorAll('input[type="hidden"][name="live"]')) field.remove();
      if (!on) continue;
      const field = document.createElement("input");
      Object.assign(field, { type: "hidden", name: "live", value: "1" });
      form.append(field);
    }
    const saved = document.querySelector('input[type="checkbox"][name="live"]');
    if (saved) saved.checked = on;
  };

  const stop = (state) => {
    if (stopWatching) stopWatching();
    stopWatching = null;
    clearTimeout(retry);
    button.setAttribute("aria-checked", "false");
    if (state !== "paused") {
      button.setAttribute("aria-disabled", "true");
      delete section.dataset.wanted;
    }
    say(state);
  };
  const start = () => {
    connection = "";
    failures = 0;
    button.setAttribute("aria-checked", "true");
    stopWatching = watch("all_calls", {}, () => refresh());
  };
  button.addEventListener("click", () => {
    if (button.getAttribute("aria-disabled")) return;
    if (stopWatching) stop("paused");
    else start();
    remember(Boolean(stopWatching));
  });
  onState((state) => {
    if (!stopWatching) return;
    connection = state;
    if (state === "ended" || state === "refused") stop(state);
    else tell();
  });

  // --- the rows
  const keyOf = (row) => row.querySelector("input.record-pick").value.replaceAll("-", "");
  const rowsOf = (part) => [...part.rows];
  const isTicked = (row) => row.querySelector("input.record-pick").checked;
  const isBusy = () =>
    table.getBoundingClientRect().top < 0 || table.contains(document.activeElement) || !getSelection().isCollapsed
    || rowsOf(body).some(isTicked);

  const ask = async (parameters) => {
    const address = new URL(section.dataset.url, location.href);
    for (const [name, value] of Object.entries({ rows: maxRows, ...parameters })) address.searchParams.set(name, value);
    const answer = await fetch(address, { credentials: "same-origin" });
    if (window.toolhub.isSignedOut(answer)) return stop("ended");
    if (answer.status === 403 || answer.redirected) return stop("refused");
    if (!answer.ok) throw new Error(String(answer.status));
    const found = await answer.json();
    const page = new DOMParser().parseFromString(`<table><tbody>${found.rows}</tbody></table>`, "text/html");
    window.toolhub.tidyCells(page);
    return { rows: rowsOf(page.querySelector("tbody")), older: found.older, ended: found.ended, knownUntil: found.known_until };
  };

  const update = (rows) => {
    const now = new Map(rows.map((row) => [keyOf(row), row]));
    const selection = getSelection();
    for (const row of rowsOf(body)) {
      const other = now.get(keyOf(row));
      if (!other) continue;
      row.classList.remove("record-gone");
      [...row.cells].forEach((cell, index) => {
        if (cell.contains(document.activeElement) || cell.querySelector("input.record-pick")) return;
        if (cell.innerHTML === other.cells[index].innerHTML) return;
        if (!selection.isCollapsed && selection.containsNode(cell, true)) return;
        cell.replaceChildren(...[...other.cells[index].childNodes].map((node) => document.importNode(node, true)));
      });
    }
  };

  // An answer is complete for all calls from its last one on; older ones stay as they are on the page.
  const compare = (answer) => {
    const now = new Set(answer.rows.map(keyOf));
    const shown = rowsOf(body);
    const covers = (row) => keyOf(row) >= answer.older;
    const added = answer.rows.filter((row) => !shown.some((other) => keyOf(other) === keyOf(row)));
    const newest = shown.reduce((key, row) => (keyOf(row) > key ? keyOf(row) : key), "");
    return {
      added,
      // Older ones move up where rows went: they are not new.
      begun: added.filter((row) => keyOf(row) > newest).length,
      hasMore: Boolean(answer.older) && added.length === answer.rows.length,
      gone: shown.filter((row) => covers(row) && !now.has(keyOf(row))),
      beyond: shown.filter((row) => !covers(row)),
      // Calls between the answer and the page may be missing. A slow search ends early, often far before the page's rows.
      isApart: answer.older > knownUntil && !shown.some(covers),
    };
  };

  const link = (before) => {
    let older = document.querySelector("a[rel=next]");
    if (!older) {
      older = document.createElement("a");
      older.rel = "next";
      older.className = "text-primary-600 dark:text-primary-500";
      document.getElementById("page-count").after(older);
    }
    const address = new URL(location.href);
    address.searchParams.set("before", before);
    older.setAttribute("href", address.search);
    older.textContent = `${gettext("Older")} \u2192`;
  };

  const place = (answer) => {
    const { gone, beyond, isApart } = compare(answer);
    for (const row of [...gone, ...(isApart ? beyond : [])]) if (!isTicked(row)) row.remove();
    const shown = new Map(rowsOf(body).map((row) => [keyOf(row), row]));
    let at = body.firstElementChild;
    for (const row of answer.rows) {
      const key = keyOf(row);
      if (shown.has(key)) {
        at = shown.get(key).nextElementSibling;
        continue;
      }
      while (at && keyOf(at) > key) at = at.nextElementSibling;
      body.insertBefore(document.importNode(row, true), at);
    }
    if (isApart) link(answer.older);
    else if (body.rows.length > maxRows || (answer.older && body.rows.length === maxRows)) link(keyOf(body.rows[maxRows - 1]));
    // Ticked rows stay to be compared, also where they are older than the page.
    for (const row of rowsOf(body).slice(maxRows)) if (!isTicked(row)) row.remove();
    const rows = body.rows.length;
    table.hidden = !rows;
    document.getElementById("page-count").textContent = interpolate(gettext("%s on this page"), [rows.toLocaleString(document.documentElement.lang || undefined)]);
    const nothing = document.getElementById("nothing");
    if (rows && nothing) nothing.remove();
    else if (!rows && !nothing) {
      const note = document.createElement("div");
      note.id = "nothing";
      note.className = "record-empty";
      note.append(document.createElement("p"));
      note.firstChild.textContent = gettext("No entries match this search and these filters.");
      table.after(note);
    }
    knownUntil = answer.knownUntil;
    hold(null);
    document.dispatchEvent(new CustomEvent("toolhub:rows"));
  };

  const hold = (answer, begun = 0, hasMore = false) => {
    const before = held;
    held = answer;
    fresh.hidden = !held;
    const label = fresh.firstElementChild;
    if (!begun) label.textContent = gettext("Update this list");
    else if (hasMore) label.textContent = interpolate(ngettext("At least %s new call", "At least %s new calls", begun), [begun]);
    else label.textContent = interpolate(ngettext("%s new call", "%s new calls", begun), [begun]);
    if (held && !before) window.toolhub.say(label.textContent);
  };
  fresh.firstElementChild.addEventListener("click", () => {
    if (held) place(held);
    button.focus({ preventScroll: true });
    scrollTo({ top: 0, behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  });

  const show = (answer) => {
    update(answer.rows);
    const { added, gone, begun, hasMore } = compare(answer);
    if (search && (added.length || gone.length)) markCount();
    for (const row of gone) row.classList.add("record-gone");
    if (!added.length && !gone.length) {
      if (answer.older <= knownUntil) knownUntil = answer.knownUntil;
      return hold(null);
    }
    if (!isBusy()) place(answer);
    else hold(answer, begun, hasMore);
  };

  // What was counted before is not what the list has now.
  const markCount = () => {
    const total = search.querySelector("[data-total]");
    if (!total.textContent || total.dataset.before !== undefined) return;
    total.dataset.before = "";
    total.textContent = `${total.textContent} (${gettext("counted when this page opened")})`;
  };

  const read = async () => {
    const answer = await ask({});
    if (!answer) return;
    show(answer);
    if (answer.ended) {
      stop("over");
      return;
    }
    // Calls that new ones pushed off the newest rows are on this page until its reader goes on.
    const running = rowsOf(body).find((row) => row.querySelector("[data-running]") && keyOf(row) < answer.older);
    if (!running) return;
    const before = (BigInt(`0x${keyOf(running)}`) + 1n).toString(16).padStart(32, "0");
    const others = await ask({ before });
    if (others) update(others.rows);
  };

  const refresh = coalesce(async () => {
    missed = document.hidden || (search && search.dataset.filling !== undefined);
    if (!stopWatching || missed) return 0;
    clearTimeout(retry);
    const began = performance.now();
    try {
      await read();
      failures = 0;
    } catch {
      failures += 1;
      retry = setTimeout(refresh, Math.min(MAX_WAIT_MS, EVERY_MS * 2 ** failures));
    }
    tell();
    return SHARE * (performance.now() - began) + SPREAD_MS * Math.random();
  }, EVERY_MS);
  document.addEventListener("visibilitychange", () => { if (missed) refresh(); });
  document.addEventListener("toolhub:filled", () => { if (missed) refresh(); });

  section.hidden = false;
  if ("obstacle" in section.dataset) return;
  if ("wanted" in section.dataset) {
    start();
    remember(true);
  }
})();
