// Fetches the page again every `data-refresh` seconds and puts the marked part in place, unless somebody works in it.
"use strict";
(() => {
  const busy = (part) =>
    document.hidden || part.contains(document.activeElement) || part.querySelector("details[open]") !== null;

  const renew = async (part) => {
    if (busy(part)) return;
    const address = new URL(window.location.href);
    address.searchParams.set("again", "1");
    const answer = await fetch(address, { credentials: "same-origin" });
    if (window.toolhub.isSignedOut(answer) || !answer.ok) return;
    const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(part.id);
    if (found && !busy(part)) part.replaceChildren(...found.childNodes);
  };

  for (const part of document.querySelectorAll("[data-refresh]")) {
    const seconds = Math.max(2, Number(part.dataset.refresh) || 5);
    const again = () => renew(part).catch(() => undefined).finally(() => setTimeout(again, seconds * 1000));
    setTimeout(again, seconds * 1000);
  }
})();
