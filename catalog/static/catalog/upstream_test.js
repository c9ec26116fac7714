// The test of an upstream server, step by step while it runs. Without this the same button answers at the end.
"use strict";

(() => {
  const form = document.querySelector("form[data-upstream-test]");
  const part = document.getElementById("upstream-test");
  if (!form || !part || !window.ReadableStream) return;
  const list = part.querySelector("ol");
  const status = part.querySelector("[role=status]");
  const cancel = part.querySelector("button");
  let running = null;

  const row = ({ step, name }) => {
    const found = list.querySelector(`[data-step="${step}"]`);
    if (found) return found;
    const made = document.createElement("li");
    made.dataset.step = step;
    made.append(document.createElement("span"), document.createElement("span"));
    made.firstChild.textContent = name;
    list.append(made);
    return made;
  };

  const settle = (item, state, text) => {
    item.dataset.state = state;
    item.lastChild.textContent = text;
  };

  const failOpen = (problems) => {
    for (const item of list.querySelectorAll("[data-state=running]")) {
      settle(item, "failed", (problems && problems[item.dataset.step]) || part.dataset.failed);
    }
  };

  const end = (text, good, problems) => {
    failOpen(problems);
    status.dataset.end = good ? "good" : "bad";
    status.textContent = text;
  };

  const take = (event) => {
    if (event.end) return end(event.text, event.end === "good", event.problems);
    if (event.took === undefined) return settle(row(event), "running", part.dataset.running);
    const found = event.number ? `, ${part.dataset.found.replace("%s", event.number)}` : "";
    return settle(row(event), "done", event.took + found);
  };

  const run = async (button) => {
    running?.abort();
    const mine = running = new AbortController();
    const body = new URLSearchParams(new FormData(form));
    body.set("action", button.value);
    list.replaceChildren();
    delete status.dataset.end;
    status.textContent = "";
    part.hidden = cancel.hidden = false;
    try {
      const options = { method: "POST", body, headers: { Accept: "application/x-ndjson" }, signal: mine.signal };
      const answer = await fetch(form.getAttribute("action") || location.href, options);
      if (window.toolhub.isSignedOut(answer)) return;
      if (!answer.ok) throw new Error(String(answer.status));
      await window.toolhub.readLines(answer, take);
      if (!status.dataset.end) throw new Error("no end");
    } catch (error) {
      if (running === mine) end(error.name === "AbortError" ? cancel.dataset.done : part.dataset.lost, false);
    } finally {
      if (running === mine) cancel.hidden = true;
    }
  };

  form.addEventListener("submit", (event) => {
    if (event.submitter?.value !== "test") return;
    event.preventDefault();
    run(event.submitter);
  });
  cancel.addEventListener("click", () => {
    running?.abort();
    form.querySelector("button[value=test]").focus();
  });
})();
