// Times in the reader's own zone: the chosen one (data-zone of the page), or else the browser's, which the server is
// told in a cookie, so that the next page is right before this has run.
"use strict";

(() => {
  const root = document.documentElement;
  const browsers = Intl.DateTimeFormat().resolvedOptions().timeZone || "";
  // The server knew the zone when it made this page: what it wrote stays.
  const known = Boolean(root.dataset.zone) || document.cookie.split("; ").includes(`toolhub_zone=${browsers}`);
  if (browsers) {
    const secure = location.protocol === "https:" ? "; Secure" : "";
    document.cookie = `toolhub_zone=${browsers}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
  }
  // The format of the server, in every language: 2026-11-27 14:05 CET.
  const day = { year: "numeric", month: "2-digit", day: "2-digit" };
  const minutes = { ...day, hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short" };
  const styles = { date: day, both: minutes, seconds: { ...minutes, second: "2-digit" } };
  const format = (moment, style) => {
    const parts = {};
    for (const { type, value } of new Intl.DateTimeFormat("en", style).formatToParts(moment)) parts[type] = value;
    const date = `${parts.year}-${parts.month}-${parts.day}`;
    if (!style.hour) return date;
    const time = [parts.hour, parts.minute, parts.second].filter(Boolean).join(":");
    return `${date} ${time} ${parts.timeZoneName}`;
  };
  const localise = (within) => {
    for (const time of within.querySelectorAll("time[data-local]")) {
      const moment = new Date(time.dateTime);
      if (Number.isNaN(moment.getTime())) continue;
      if (!known) time.textContent = format(moment, styles[time.dataset.local] || styles.both);
      time.title = time.dateTime;
    }
  };
  localise(document);
  window.toolhub = { ...(window.toolhub || {}), localise };
})();
