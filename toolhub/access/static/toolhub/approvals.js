// What waits for the person's approval: the number in the navigation and in the title, news in the browser, and the
// parts of a page that say something else when a request is made or decided. Every page works without any of this.
"use strict";

(() => {
  // Whoever has the list or a request open waits for what happens to it, and so does the caller.
  const VISIBLE_MS = document.querySelector("#approvals, #approval") ? 2_000 : 10_000;
  const HIDDEN_MS = 60_000;
  const NOTIFY = "toolhub.approvals.notify";
  const link = document.getElementById("approvals-link");
  const number = link.querySelector("[data-number]");
  const title = document.title;
  // The version was read after the parts of the page: what changed in between, such as a call that ran at once, is in the
  // version and not in the parts. So they are asked for once more.
  let version = document.querySelector("[data-live-part]") ? "" : link.dataset.version;
  let newestAt = Number(link.dataset.newestAt);
  let over = false;
  let timer = 0;

  // --- what is in this browser: whether the person wants news here
  const wantsNews = () => {
    try {
      return localStorage.getItem(NOTIFY) === "1";
    } catch {
      return false;
    }
  };
  const canNotify = () => "Notification" in window && Notification.permission === "granted" && wantsNews();

  const notify = (id) => {
    if (!canNotify()) return;
    try {
      // The same tag in every tab: one request is told once.
      const news = new Notification(link.dataset.news, { tag: id, icon: document.querySelector("link[rel=icon]").href });
      news.addEventListener("click", () => {
        window.focus();
        location.assign(`${link.pathname}${id}/`);
      });
    } catch {
      // Some browsers of telephones have the name and no notifications of pages.
    }
  };

  // --- the number
  const show = (waiting) => {
    number.textContent = String(waiting);
    number.parentElement.hidden = waiting === 0;
    document.title = waiting ? `(${waiting}) ${title}` : title;
  };

  // --- parts of the page, with the focus and what was typed
  const keep = (part) => {
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    const typed = [...part.querySelectorAll("textarea[id]")].map((field) => [field.id, field.value]);
    const [from, to] = focused ? [focused.selectionStart, focused.selectionEnd] : [];
    return () => {
      for (const [id, value] of typed) {
        const field = document.getElementById(id);
        if (field) field.value = value;
      }
      if (!focused) return;
      const again = focused.id ? document.getElementById(focused.id) : null;
      (again || document.getElementById("content")).focus({ preventScroll: true });
      if (again && again.matches("textarea")) again.setSelectionRange(from, to);
    };
  };

  const renew = async (part) => {
    const answer = await fetch(part.dataset.address, { credentials: "same-origin" });
    if (window.toolhub.isSignedOut(answer)) { over = true; return; }
    if (!answer.ok) return;
    const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(part.id);
    // The page of one request stays as it is while that request does: it is being read.
    if (!found || (part.dataset.state && found.dataset.state === part.dataset.state)) return;
    window.toolhub.localise(found);
    const restore = keep(part);
    part.replaceChildren(...found.childNodes);
    part.dataset.state = found.dataset.state || "";
    restore();
    showTimes();
    showKeys();
  };
  const renewAll = () => Promise.all([...document.querySelectorAll("[data-live-part]")].map(renew));

  const ask = async () => {
    const answer = await fetch(link.dataset.count, { credentials: "same-origin" });
    if (window.toolhub.isSignedOut(answer)) { over = true; return; }
    if (!answer.ok) return;
    const found = await answer.json();
    show(found.waiting);
    if (found.newest && found.newest_at > newestAt) {
      newestAt = found.newest_at;
      notify(found.newest);
    }
    if (found.version === version) return;
    await renewAll();
    version = found.version;
  };

  // A page that nobody looks at asks for its notifications only.
  const again = () => {
    clearTimeout(timer);
    if (over || (document.hidden && !canNotify())) return;
    timer = setTimeout(() => ask().catch(() => undefined).finally(again), document.hidden ? HIDDEN_MS : VISIBLE_MS);
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden || over) again();
    else ask().catch(() => undefined).finally(again);
  });

  // --- time left
  const two = (value) => String(value).padStart(2, "0");
  const showTimes = () => {
    let ended = false;
    for (const time of document.querySelectorAll("time[data-left]")) {
      const left = Math.max(0, Math.round((new Date(time.dateTime) - Date.now()) / 1000));
      const hours = Math.floor(left / 3600);
      const minutes = Math.floor(left / 60) % 60;
      time.textContent = hours ? `${hours}:${two(minutes)}:${two(left % 60)}` : `${minutes}:${two(left % 60)}`;
      ended = ended || (left === 0 && !time.dataset.ended);
      if (left === 0) time.dataset.ended = "";
    }
    // A second later it is over for the server as well.
    if (ended) setTimeout(() => renewAll().catch(() => undefined), 1500);
  };

  // --- keys: only where no field has the focus, and only with nothing else held
  let sent = false;
  const showKeys = () => {
    for (const text of document.querySelectorAll("[data-keys]")) text.hidden = false;
  };
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.repeat || event.isComposing) return;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest?.("input, textarea, select, [contenteditable]")) return;
    const wanted = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (!wanted || sent) return;
    event.preventDefault();
    // A key alone decides nothing: it may be meant for something else.
    if (wanted.matches("textarea, button")) { wanted.focus(); return; }
    sent = true;
    wanted.click();
  });
  addEventListener("pageshow", () => { sent = false; });

  // --- the button for notifications
  const box = document.querySelector("[data-notify]");
  const showBox = () => {
    const [button, said] = box.children;
    const on = canNotify();
    const blocked = Notification.permission === "denied";
    button.hidden = blocked;
    button.textContent = on ? button.dataset.on : button.dataset.off;
    button.setAttribute("aria-pressed", String(on));
    said.textContent = blocked ? said.dataset.blocked : on ? said.dataset.on : "";
    box.hidden = false;
  };
  if (box && "Notification" in window && window.isSecureContext) {
    box.querySelector("button").addEventListener("click", async () => {
      const on = canNotify();
      if (!on) await Notification.requestPermission();
      try {
        localStorage.setItem(NOTIFY, on ? "0" : "1");
      } catch {
        // Without a place to remember it, there are no notifications.
      }
      showBox();
    });
    showBox();
  }

  show(Number(link.dataset.waiting));
  showTimes();
  showKeys();
  setInterval(showTimes, 1000);
  again();
})();
