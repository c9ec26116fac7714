// The connection check: marks how far the client got, and explains the step at which it was turned away.
"use strict";

(() => {
  const check = document.getElementById("check");
  if (!check || !window.toolhub || !window.toolhub.watch) return;
  check.hidden = false;
  const mine = check.dataset.credential;
  const STAGES = ["token", "revision", "tools", "call"];
  const stage = (name) => check.querySelector(`[data-stage="${name}"]`);
  const isDone = (name) => stage(name).dataset.state === "done";
  const fill = (name, text) => { check.querySelector(`[data-${name}]`).textContent = text; };

  const mark = (name, state) => {
    const item = stage(name);
    item.dataset.state = state;
    item.querySelector("[data-waiting]").hidden = state === "done";
    item.querySelector("[data-done]").hidden = state !== "done";
  };
  const waitFor = () => {
    const next = STAGES.find((name) => !isDone(name));
    for (const name of STAGES) if (!isDone(name)) mark(name, name === next ? "now" : "later");
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
    const next = STAGES.find((name) => !isDone(name)) || "call";
    mark(next, "failed");
    explain(reason, text);
  };

  const follow = (message) => {
    const known = message.credential;
    if (mine && known && known !== mine) {
      if (!isDone("token")) explain(message.step === "failed" ? message.reason : "other", message.token);
      return;
    }
    if (message.step === "failed" && (!known || ["revoked", "expired", "inactive"].includes(message.reason))) {
      if (!isDone("tools")) failed(message.reason, message.said);
      return;
    }
    if (message.token) fill("token", message.token);
    if (message.client) fill("client", message.client);
    mark("token", "done");
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
  };

  waitFor();
  window.toolhub.watch("connect", {}, follow);
  const light = check.querySelector("[data-live]");
  window.toolhub.onState((state) => {
    light.dataset.live = state;
    light.textContent = light.dataset[`${state}Text`];
  });
})();
