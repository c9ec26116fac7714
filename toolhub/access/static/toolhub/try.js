// Try it: forms are sent without leaving the page; while a call runs its state is asked for every second, and at once
// when the live socket says that something changed.
"use strict";

(() => {
  const page = document.getElementById("try");
  if (!page) return;
  const part = (name) => document.getElementById(`try-${name}`);
  const shown = new Map();
  let current = null; // {id, address} of the run that the page shows
  let waiting = 0;
  let clock = 0;
  let started = 0;

  // `kept`: what was typed and is wrong stays until the tool asks for something else, however often news is asked for.
  const place = (name, html, kept) => {
    if (shown.get(name) === html) return;
    if (!kept) shown.set(name, html);
    part(name).innerHTML = html; // made by our own templates, which escape what came from a tool
  };

  const say = (message, link, words) => {
    const box = part("message");
    box.replaceChildren();
    if (!message) return;
    const note = document.createElement("p");
    note.className = "th-note bad";
    note.textContent = message;
    if (link) {
      const anchor = document.createElement("a");
      anchor.href = link;
      anchor.textContent = words || link;
      note.append(" ", anchor);
    }
    box.append(note);
  };

  const tick = () => {
    part("seconds").textContent = interpolate(gettext("%s s"), [((Date.now() - started) / 1000).toFixed(0)]);
  };

  const show = (state) => {
    if (!current || current.id !== state.id) return;
    part("empty").hidden = true;
    part("running").hidden = state.ended;
    started = Date.now() - state.seconds * 1000;
    const bar = part("progress");
    const reported = state.progress;
    if (reported && reported.total) {
      bar.max = reported.total;
      bar.value = Math.min(reported.progress, reported.total);
    } else {
      bar.removeAttribute("value");
    }
    part("said").textContent = reported ? reported.message || (reported.total ? "" : String(reported.progress)) : "";
    part("cancel-form").setAttribute("action", state.addresses.cancel);
    for (const name of ["questions", "outcome", "log"]) place(name, state[name], name === "questions" && state.wrong);
    clearTimeout(waiting);
    clearInterval(clock);
    if (state.ended) return;
    tick();
    clock = setInterval(tick, 1000);
    waiting = setTimeout(look, 1000);
  };

  const look = async () => {
    clearTimeout(waiting);
    const run = current;
    try {
      const answer = await fetch(run.address, { headers: { Accept: "application/json" } });
      if (run !== current) return;
      const ended = window.toolhub.isSignedOut(answer);
      const refused = answer.status === 403;
      if (answer.status === 404 || refused || ended) {
        clearInterval(clock);
        part("running").hidden = true;
        current = null; // news that comes later asks no more
        if (ended) return;
        return say(refused
          ? gettext("You no longer have permission to view this run. Its call is in the audit log.")
          : gettext("This run is no longer available here. Its call is in the audit log."));
      }
      if (!answer.ok) throw new Error(String(answer.status));
      say("");
      show(await answer.json());
    } catch {
      if (run !== current) return;
      say(gettext("The server does not respond. Retrying."));
      waiting = setTimeout(look, 2000);
    }
  };

  const follow = (state) => {
    if (!current || current.id !== state.id) {
      current = { id: state.id, address: state.addresses.state };
      const address = new URL(location.href);
      address.searchParams.set("run", state.id);
      history.replaceState(null, "", address);
      watch();
    }
    show(state);
  };

  const watch = () => {
    const { id } = current;
    if (window.toolhub && window.toolhub.watch) {
      window.toolhub.watch("call", { id }, () => { if (current && current.id === id) look(); });
    }
  };

  const mark = (errors) => {
    let first = null;
    for (const place of document.querySelectorAll("#try-form [data-error]")) {
      const message = errors[place.dataset.error] || "";
      place.textContent = message;
      const field = document.getElementById(place.dataset.error);
      field.toggleAttribute("aria-invalid", false);
      if (message) {
        field.setAttribute("aria-invalid", "true");
        first = first || field;
      }
    }
    if (first) first.focus();
  };

  document.addEventListener("submit", async (event) => {
    const form = event.target.closest("form[data-try-form]");
    const button = event.submitter;
    if (!form || (button && "plain" in button.dataset)) return;
    event.preventDefault();
    const body = new FormData(form);
    if (button && button.name) body.set(button.name, button.value);
    // A form that came later has none of its own: it would differ each time, and what is typed be lost to a new copy.
    body.set("csrfmiddlewaretoken", document.querySelector("#try-form [name=csrfmiddlewaretoken]").value);
    if (button) button.disabled = true;
    try {
      const answer = await fetch(form.getAttribute("action"), { // `form.action` may be a button of that name
        method: "POST",
        body: new URLSearchParams(body),
        headers: { Accept: "application/json" },
      });
      if (window.toolhub.isSignedOut(answer)) return;
      if (!answer.ok) throw new Error(String(answer.status));
      const state = await answer.json();
      if (state.refused) {
        mark(state.errors);
        say(state.message, state.record, state.words);
        part("access").innerHTML = state.access; // made by our own template
        return;
      }
      if (form.id === "try-form") {
        mark({});
        part("access").replaceChildren();
      }
      say("");
      follow(state);
    } catch {
      say(gettext("The server does not respond. Retrying."));
    } finally {
      if (button) button.disabled = false;
    }
  });

  if (page.dataset.state) {
    current = { id: page.dataset.call, address: page.dataset.state };
    for (const name of ["questions", "outcome", "log"]) shown.set(name, null);
    watch();
    look();
  }
})();
