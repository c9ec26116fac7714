// What happens while a page is open, over one WebSocket: window.toolhub.watch(topic, params, callback).
//
// Topics: "calls", "call" with {id}, "connect". The callback gets each message; for "call" the last one has an outcome
// (or an error). It returns a function that stops watching. Lost connections come back by themselves, and then watch
// again what was watched: so a callback may hear the same twice. Pages must work without any of this.
"use strict";

(() => {
  const watches = new Set();
  const listeners = new Set();
  const SIGNED_OUT = 4401;
  let socket = null;
  let failures = 0;
  let timer = 0;
  let over = false;

  const text = (watch) => JSON.stringify({ watch: watch.topic, ...watch.params });
  const tell = (state) => { for (const listener of listeners) listener(state); };

  const hears = (watch, message) =>
    watch.topic === message.topic && (watch.topic !== "call" || watch.params.id === message.id);

  const connect = () => {
    timer = 0;
    if (socket || over || !watches.size) return;
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const here = socket = new WebSocket(`${scheme}//${location.host}/ws/live`);
    here.addEventListener("open", () => {
      failures = 0;
      const said = new Set();
      for (const watch of watches) {
        if (!said.has(text(watch))) here.send(text(watch));
        said.add(text(watch));
      }
      tell("live");
    });
    here.addEventListener("message", (event) => {
      const message = JSON.parse(event.data);
      for (const watch of [...watches]) {
        if (!hears(watch, message)) continue;
        if (message.topic === "call" && (message.outcome || message.error)) watches.delete(watch);
        watch.callback(message);
      }
    });
    here.addEventListener("close", (event) => {
      if (socket === here) socket = null;
      if (event.code === SIGNED_OUT) {
        over = true;
        window.toolhub.announceSignedOut();
      }
      tell(over ? "ended" : "waiting");
      again();
    });
  };

  const again = () => {
    if (timer || over || !watches.size) return;
    // Every page comes back after a restart: not all in the same moment.
    const wait = Math.min(30000, 500 * 2 ** failures) * (0.5 + Math.random());
    failures += 1;
    timer = setTimeout(connect, wait);
  };

  const watch = (topic, params, callback) => {
    const added = { topic, params: params || {}, callback };
    watches.add(added);
    if (socket && socket.readyState === WebSocket.OPEN) socket.send(text(added));
    else if (!socket && !timer) connect();
    return () => {
      watches.delete(added);
      const alone = ![...watches].some((other) => text(other) === text(added));
      if (topic === "call" && alone && socket && socket.readyState === WebSocket.OPEN) {
        socket.send(JSON.stringify({ unwatch: "call", id: added.params.id }));
      }
    };
  };

  // "live", "waiting" (the connection is lost and will come back) or "ended" (signed out).
  const onState = (listener) => { listeners.add(listener); return () => listeners.delete(listener); };

  // A page that was put aside by the browser comes back without its socket.
  addEventListener("pageshow", (event) => { if (event.persisted && !socket) connect(); });
  addEventListener("online", () => { failures = 0; if (!socket) { clearTimeout(timer); connect(); } });

  window.toolhub = { ...(window.toolhub || {}), watch, onState };
})();
