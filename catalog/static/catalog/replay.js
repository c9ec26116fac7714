// The replay of a rule: the form is sent as it is, nothing is saved, and the answer comes line by line while calls are
// read. Leaving the page, "Cancel" and another replay end it.
"use strict";

(() => {
  const part = document.getElementById("replay");
  const form = part && document.getElementById(part.dataset.form);
  if (!form || !window.ReadableStream) return;
  const start = part.querySelector("[data-start]");
  const cancel = part.querySelector("[data-cancel]");
  const bar = part.querySelector("progress");
  const status = part.querySelector("[data-status]");
  const problems = part.querySelector("[data-problems]");
  const report = part.querySelector("[data-report]");
  const days = document.getElementById("replay-days");
  let running = null;

  const end = (text, state) => {
    status.dataset.end = state;
    status.textContent = text;
  };

  const show = (html) => {
    const found = new DOMParser().parseFromString(html, "text/html");
    window.toolhub.localise?.(found);
    report.replaceChildren(...found.body.childNodes);
    report.hidden = false;
  };

  const take = (line) => {
    if (!line.end) {
      if (line.total) [bar.max, bar.value] = [line.total, Math.min(line.done, line.total)];
      status.textContent = line.text;
      return;
    }
    end(line.text, line.end);
    for (const text of line.problems || []) problems.append(Object.assign(document.createElement("li"), { textContent: text }));
    problems.hidden = !problems.children.length;
    if (line.html) show(line.html);
  };

  const run = async () => {
    running?.abort();
    const mine = running = new AbortController();
    const body = new FormData(form);
    body.set("days", days.value);
    delete status.dataset.end;
    status.textContent = part.dataset.waiting;
    problems.replaceChildren();
    report.replaceChildren();
    report.hidden = problems.hidden = true;
    bar.removeAttribute("value");
    bar.hidden = cancel.hidden = false;
    try {
      const answer = await fetch(part.dataset.address, { method: "POST", body, signal: mine.signal });
      if (window.toolhub.isSignedOut(answer)) {
        status.textContent = "";
        return;
      }
      if (!answer.ok) throw new Error(String(answer.status));
      await window.toolhub.readLines(answer, take);
      if (!status.dataset.end) throw new Error("no end");
    } catch (error) {
      if (running === mine) end(error.name === "AbortError" ? part.dataset.done : part.dataset.lost, "bad");
    } finally {
      if (running === mine) {
        if (document.activeElement === cancel) start.focus();
        bar.hidden = cancel.hidden = true;
      }
    }
  };

  start.addEventListener("click", run);
  cancel.addEventListener("click", () => {
    running?.abort();
    start.focus();
  });
  part.hidden = false;
  if (location.hash === "#replay") {
    part.scrollIntoView();
    part.focus({ preventScroll: true });
  }
})();
