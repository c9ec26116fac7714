// Calls as they happen: rows appear, show their progress and end by themselves; a running one can be cancelled.
//
// The server renders every row: news only says that there is something to fetch. Nobody's place on the page is moved:
// who has scrolled down is told how many are new, and asks for them.
"use strict";

(() => {
  const { watch, onState, localise, coalesce } = window.toolhub;
  const AT_MOST_EVERY = 700;
  const said = () => document.querySelector("[data-said]");
  let quiet = 0;
  const say = (text) => {
    const place = said();
    if (!place) return;
    place.textContent = text;
    place.hidden = false;
    clearTimeout(quiet);
    quiet = setTimeout(() => { place.hidden = true; }, 8000);
  };

  const get = async (part, address = location.href) => {
    const headers = part ? { "X-Part": part } : {};
    const answer = await fetch(address, { headers, credentials: "same-origin" });
    if (window.toolhub.isSignedOut(answer)) throw new Error("signed out");
    if (!answer.ok) throw new Error(String(answer.status));
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    localise(found);
    return found;
  };

  const eager = (work) => coalesce(work, AT_MOST_EVERY);

  const showProgress = (place, progress) => {
    if (!place || !progress) return;
    const [bar, words] = place.children;
    bar.hidden = false;
    if (progress.total) { bar.max = progress.total; bar.value = progress.progress; } else bar.removeAttribute("value");
    const share = progress.total ? `${Math.round((100 * progress.progress) / progress.total)} %` : "";
    words.textContent = [share, progress.message].filter(Boolean).join(" · ");
  };

  // Cancelling stays on the page; without this script the same form leads back to it.
  document.addEventListener("submit", async (event) => {
    const form = event.target.closest("[data-cancel]");
    if (!form) return;
    event.preventDefault();
    const button = form.querySelector("button");
    button.disabled = true;
    try {
      const options = { method: "POST", body: new FormData(form), headers: { Accept: "application/json" } };
      const answer = await fetch(form.action, options);
      if (window.toolhub.isSignedOut(answer)) return;
      if (!answer.ok) throw new Error(String(answer.status));
      say((await answer.json()).text);
      refresh();
    } catch {
      form.submit();
    }
    button.disabled = false;
  });

  // --- the list
  const list = document.getElementById("calls");
  let refresh = () => undefined;
  if (list) {
    const newest = "newest" in list.dataset;
    const fresh = document.querySelector("[data-fresh]");
    let held = null;
    const rowsOf = (part) => [...part.querySelectorAll("[data-call]")];
    const byId = (part) => new Map(rowsOf(part).map((row) => [row.dataset.call, row]));
    const isBusy = () =>
      list.getBoundingClientRect().top < 0 || list.contains(document.activeElement) || !getSelection().isCollapsed;

    const update = (found) => {
      const now = byId(found);
      for (const row of rowsOf(list)) {
        const other = now.get(row.dataset.call);
        if (!other) continue;
        const cells = [...other.children];
        [...row.children].forEach((cell, index) => {
          const running = cell.querySelector("[data-progress]") && cells[index].querySelector("[data-progress]");
          if (!running && cell.innerHTML !== cells[index].innerHTML) cell.replaceChildren(...cells[index].childNodes);
        });
      }
    };
    const replace = (found) => {
      const before = byId(list);
      for (const [id, row] of byId(found)) if (before.has(id)) row.replaceWith(before.get(id));
      list.replaceChildren(...found.childNodes);
      held = null;
      fresh.parentElement.hidden = true;
      goOn();
    };
    // A search that stopped for time goes on by itself until the page is full or all calls were searched.
    const MAX_ROWS = 50;
    let going = false;
    const goOn = eager(async () => {
      if (going) return;
      going = true;
      try {
        while (list.querySelector("[data-looked]") && rowsOf(list).length < MAX_ROWS) {
          const link = list.querySelector("a[rel=next]");
          const found = link && (await get("calls", link.href)).getElementById("calls");
          if (!found || !link.isConnected) return;
          const body = list.querySelector("tbody");
          // The first page has no newer one, however many steps filled it.
          if (newest) for (const other of found.querySelectorAll("[data-pager] a:not([rel])")) other.remove();
          if (body) body.append(...rowsOf(found));
          else list.querySelector(".card").replaceWith(found.querySelector(".card"));
          for (const part of list.querySelectorAll("[data-looked], [data-pager]")) part.remove();
          list.append(...found.querySelectorAll("[data-looked], [data-pager]"));
        }
      } finally {
        going = false;
      }
    });
    if (list.querySelector("[data-looked]")) goOn();
    const show = eager(async () => {
      const found = (await get("calls")).getElementById("calls");
      if (!found) return;
      update(found);
      if (!newest) return;
      const before = byId(list);
      const added = rowsOf(found).filter((row) => !before.has(row.dataset.call)).length;
      if (!added) return;
      if (!isBusy()) { replace(found); return; }
      held = found;
      fresh.textContent = added === 1 ? fresh.dataset.one : fresh.dataset.many.replace("%s", added);
      fresh.parentElement.hidden = false;
    });
    refresh = show;
    fresh.addEventListener("click", () => {
      if (held) replace(held);
      scrollTo({ top: 0, behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
    });
    watch("calls", {}, (message) => {
      if (!message.progress) { show(); return; }
      showProgress(list.querySelector(`[data-call="${message.id}"] [data-progress]`), message.progress);
    });
    const light = document.querySelector("[data-live]");
    onState((state) => {
      light.hidden = false;
      light.dataset.live = state;
      light.textContent = light.dataset[`${state}Text`];
    });
  }

  // --- one call
  const one = document.getElementById("call");
  if (one) {
    const renew = eager(async () => {
      const found = (await get("")).getElementById("call");
      if (found) one.replaceChildren(...found.childNodes);
    });
    watch("call", { id: one.dataset.one }, (message) => {
      if (message.outcome) renew();
      else showProgress(one.querySelector("[data-progress]"), message.progress);
    });
  }
})();
