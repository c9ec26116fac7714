// Answers to scripts after the session ended: the sign-in page came instead, and the page says what to do.
"use strict";

(() => {
  const template = () => document.getElementById("session-ended");
  const signIn = () => template() && new URL(template().content.querySelector("a").getAttribute("href"), location.href);

  const announce = () => {
    const source = template();
    if (!source || document.querySelector("[data-session-ended]")) return;
    const note = source.content.firstElementChild.cloneNode(true);
    const address = signIn();
    address.searchParams.set("next", location.pathname + location.search + location.hash);
    note.querySelector("a").href = address;
    note.dataset.sessionEnded = "";
    // Inside of a dialog that lies over the page, it is read; behind it, it is not.
    (document.querySelector("dialog[open]") || document.body).append(note);
  };

  // Whether this answer is the sign-in page; the person is told then.
  const isSignedOut = (answer) => {
    const ended = answer.redirected && new URL(answer.url).pathname === signIn()?.pathname;
    if (ended) announce();
    return ended;
  };

  window.toolhub = { ...(window.toolhub || {}), isSignedOut, announceSignedOut: announce };
})();
