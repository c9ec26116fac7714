// The page of rules in trial, kept up to date: it asks every few seconds, and replaces only the parts that say something
// else. The focus stays where it is, and so does what the reader looks at. A hidden page does not ask.
"use strict";

(() => {
  const EVERY_MS = 4000;
  const SHARE = 5; // of the time that an answer took: a page that is slow to make is asked for less often
  const page = document.getElementById("trials");
  const list = document.getElementById("trials-rules");
  const said = page.querySelector("[data-said]");
  let timer = 0;
  let over = false;

  const say = (text) => {
    if (said.textContent !== text) said.textContent = text;
  };

  // --- what the reader is at: the focused element, and the first rule on the screen
  const describe = (element) => {
    const part = element.closest("[data-live-part]");
    if (!part) return null;
    const address = element.getAttribute("href");
    return { part: part.id, address, index: [...part.querySelectorAll("a, [tabindex]")].indexOf(element) };
  };
  const find = ({ part, address, index }) => {
    const now = document.getElementById(part);
    if (!now) return null;
    const same = address && now.querySelector(`a[href="${CSS.escape(address)}"]`);
    return same || now.querySelectorAll("a, [tabindex]")[index] || null;
  };
  const keepPlace = () => {
    const active = document.activeElement;
    const focused = page.contains(active) ? describe(active) : null;
    const seen = [...list.children].find((rule) => rule.getBoundingClientRect().bottom > 0);
    const top = seen && seen.getBoundingClientRect().top;
    return () => {
      if (focused && !active.isConnected) (find(focused) || document.getElementById("content") || page).focus({ preventScroll: true });
      if (seen && seen.isConnected) scrollBy({ top: seen.getBoundingClientRect().top - top, behavior: "instant" });
    };
  };

  const renewParts = (now, found) => {
    for (const part of now.querySelectorAll("[data-live-part]")) {
      const other = found.querySelector(`#${CSS.escape(part.id)}`);
      if (!other || other.innerHTML === part.dataset.was || (!part.dataset.was && other.innerHTML === part.innerHTML)) continue;
      part.dataset.was = other.innerHTML;
      window.toolhub.localise?.(other);
      part.replaceChildren(...other.childNodes);
    }
  };

  const renew = (found) => {
    const other = found.getElementById("trials");
    if (!other) return;
    const restore = keepPlace();
    const rules = found.getElementById("trials-rules");
    const before = new Map([...list.children].map((rule) => [rule.id, rule]));
    const wanted = [...rules.children];
    renewParts(page, other);
    for (const [id, rule] of before) if (!wanted.some((one) => one.id === id)) rule.remove();
    let at = list.firstElementChild;
    for (const rule of wanted) {
      if (at && at.id === rule.id) at = at.nextElementSibling;
      else list.insertBefore(before.get(rule.id) || rule, at);
    }
    const [empty, none] = [document.getElementById("trials-empty"), found.getElementById("trials-empty")];
    if (empty && !none) empty.remove();
    else if (none && !empty) list.after(none);
    page.dataset.version = other.dataset.version;
    restore();
  };

  const ask = async () => {
    const address = new URL(location.href);
    address.searchParams.set("version", page.dataset.version);
    const began = performance.now();
    const answer = await fetch(address, { credentials: "same-origin" });
    if (window.toolhub.isSignedOut(answer)) { over = true; return 0; }
    if (answer.status === 403 || answer.redirected) {
      over = true;
      say(said.dataset.refused);
      return 0;
    }
    if (!answer.ok) throw new Error(String(answer.status));
    if (answer.status !== 204) renew(new DOMParser().parseFromString(await answer.text(), "text/html"));
    say("");
    return SHARE * (performance.now() - began);
  };

  const again = (wait) => {
    clearTimeout(timer);
    if (!over && !document.hidden) timer = setTimeout(run, Math.max(EVERY_MS, wait));
  };
  const run = () => ask().catch(() => { say(said.dataset.lost); return 0; }).then(again);
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (!document.hidden && !over) run();
  });
  again(0);
})();
