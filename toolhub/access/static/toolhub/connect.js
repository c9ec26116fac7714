// The connection check: marks how far the client got, and explains the step at which it was turned away.
"use strict";

(() => {
  const check = document.getElementById("check");
  if (!check || !window.toolhub || !window.toolhub.watch) return;
  check.hidden = false;
  const SILENCE_MS = 30000;
  const stages = [...check.querySelectorAll("[data-stage]")].map((item) => item.dataset.stage);
  const signsIn = stages.includes("allowed");
  // Steps of a sign-in, and the stage that each one reaches.
  const SIGN_IN = { metadata: "found", registered: "introduced", asked: "introduced", allowed: "allowed", issued: "token" };
  let mine = check.dataset.credential;
  const stage = (name) => check.querySelector(`[data-stage="${name}"]`);
  const isDone = (name) => stage(name).dataset.state === "done";
  const fill = (name, text) => {
    for (const place of check.querySelectorAll(`[data-${name}]`)) place.textContent = text;
  };

  const mark = (name, state) => {
    const item = stage(name);
    item.dataset.state = state;
    item.querySelector("[data-waiting]").hidden = state === "done";
    item.querySelector("[data-done]").hidden = state !== "done";
  };
  const waitFor = () => {
    const next = stages.find((name) => !isDone(name));
    for (const name of stages) if (!isDone(name)) mark(name, name === next ? "now" : "later");
  };
  const reach = (name) => {
    // A client may skip a step that it took before: it is registered, or has a document.
    for (const each of stages.slice(0, stages.indexOf(name) + 1)) mark(each, "done");
  };
  const explain = (reason, text) => {
    let shown = null;
    for (const part of check.querySelectorAll("[data-reason]")) {
      part.hidden = part.dataset.reason !== reason;
      if (!part.hidden) shown = part;
    }
    if (reason && !shown) { explain("request", text); return; }
    if (!shown) return;
    const said = shown.querySelector("[data-said]");
    said.textContent = text || "";
    said.hidden = !text;
  };
  const failed = (reason, text) => {
    mark(stages.find((name) => !isDone(name)) || "call", "failed");
    explain(reason, text);
  };

  let quiet = 0;
  const restart = () => {
    clearTimeout(quiet);
    if (!isDone("tools")) quiet = setTimeout(() => explain("silence"), SILENCE_MS);
  };

  const followSignIn = (message) => {
    if (message.step === "issued") {
      mine = message.credential;
      fill("token", message.client);
    }
    if (message.client) fill("asking", message.client);
    explain("");
    reach(SIGN_IN[message.step]);
    waitFor();
  };

  const follow = (message) => {
    const known = message.credential;
    // What another client did before this page was opened; only a page with a new token is about one of these.
    if (signsIn && message.recent) return;
    if (message.step in SIGN_IN) {
      // Another client that signs in later does not start this one again.
      if (signsIn && (!isDone("token") || known === mine)) { followSignIn(message); restart(); }
      return;
    }
    if (signsIn && !known && message.reason === "missing") {
      if (!isDone("found")) { explain(""); reach("found"); waitFor(); restart(); }
      return;
    }
    if (known && known !== mine && (mine || signsIn)) {
      if (!signsIn && !isDone("token")) explain(message.step === "failed" ? message.reason : "other", message.token);
      return;
    }
    restart();
    if (message.step === "failed" && (!known || ["revoked", "expired", "inactive"].includes(message.reason))) {
      if (!isDone("tools")) failed(message.reason, message.said);
      return;
    }
    if (message.token) fill("token", message.token);
    if (message.client) fill("client", message.client);
    reach("token");
    explain("");
    if (message.step === "failed") { waitFor(); failed(message.reason, message.said); return; }
    if (message.step === "revision") fill("revision", message.revision);
    mark("revision", "done");
    if (message.step === "tools") {
      fill("count", message.more ? `${message.count}+` : String(message.count));
      mark("tools", "done");
      if (message.count === 0) explain("no_tools");
    }
    if (message.step === "call") {
      mark("tools", "done");
      if (message.failed) { failed("call"); return; }
      mark("call", "done");
    }
    check.querySelector("[data-connected]").hidden = !isDone("tools") || !check.querySelector("[data-reason=no_tools]").hidden;
    waitFor();
    if (isDone("tools")) clearTimeout(quiet);
  };

  waitFor();
  restart();
  window.toolhub.watch("connect", {}, follow);
  const light = check.querySelector("[data-live]");
  window.toolhub.onState((state) => {
    light.dataset.live = state;
    light.textContent = light.dataset[`${state}Text`];
  });
})();
