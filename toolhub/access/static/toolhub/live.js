// What happens while a page is open, over one WebSocket: window.toolhub.watch(topic, params, callback).
//
// Topics: "calls", "call" with {id}, "connect", and for auditors "all_calls". The callback gets each message; for "call"
// the last one has an outcome (or an error). It returns a function that stops watching. Lost connections come back by
// themselves, and then watch again what was watched: so a callback may hear the same twice. Pages must work without any
// of this.
"use strict";

(() => {
  const watches = new Set();
  const listeners = new Set();
  const SIGNED_OUT = 4401;
  const REJECTED = 1008;
  const LASTING_MS = 5000;
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
    // A server that has no room left opens the connection and closes it at once: only news, or time, makes it a good one.
    let lasting = 0;
    const forgive = () => { failures = 0; };
    here.addEventListener("open", () => {
      lasting = setTimeout(forgive, LASTING_MS);
      const said = new Set();
      for (const watch of watches) {
        if (!said.has(text(watch))) here.send(text(watch));
        said.add(text(watch));
      }
      tell("live");
    });
    here.addEventListener("message", (event) => {
      forgive();
      const message = JSON.parse(event.data);
      for (const watch of [...watches]) {
        if (!hears(watch, message)) continue;
        if (message.topic === "call" && (message.outcome || message.error)) watches.delete(watch);
        watch.callback(message);
      }
    });
    here.addEventListener("close", (event) => {
      clearTimeout(lasting);
      if (socket === here) socket = null;
      if (event.code === SIGNED_OUT) {
        over = true;
        window.toolhub.announceSignedOut();
      }
      // What nobody but auditors may watch is rejected for everybody else.
      const refused = event.code === REJECTED && [...watches].some(({ topic }) => topic === "all_calls");
      over = over || refused;
      tell(refused ? "refused" : over ? "ended" : "waiting");
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
      if (topic === "all_calls" && alone && socket && socket.readyState === WebSocket.OPEN) {
        socket.send(JSON.stringify({ unwatch: topic }));
      }
    };
  };

  // Several pieces of news are one run of the work, and one that comes while it runs is one more. A run begins `every`
  // milliseconds after the last one, or later if that one returned more milliseconds.
  const coalesce = (work, every) => {
    let running = false;
    let again = false;
    let next = 0;
    const run = async () => {
      if (running) { again = true; return; }
      running = true;
      await new Promise((done) => setTimeout(done, Math.max(0, next - Date.now())));
      again = false;
      next = Date.now() + every;
      try {
        next = Math.max(next, Date.now() + ((await work()) || 0));
      } catch {
        // The server is away for a moment: its return is news as well.
      }
      running = false;
      if (again) run();
    };
    return run;
  };

  // "live", "waiting" (the connection is lost and will come back), "ended" (signed out) or "refused" (no permission).
  const onState = (listener) => { listeners.add(listener); return () => listeners.delete(listener); };

  // A page that was put aside by the browser comes back without its socket.
  addEventListener("pageshow", (event) => { if (event.persisted && !socket) connect(); });
  addEventListener("online", () => { failures = 0; if (!socket) { clearTimeout(timer); connect(); } });

  window.toolhub = { ...(window.toolhub || {}), watch, onState, coalesce };
})();
