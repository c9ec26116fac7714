// Times in the reader's own zone: the chosen one (data-zone of the page), or else the browser's, which the server is
// told in a cookie, so that the next page is right before this has run.
"use strict";

(() => {
  const root = document.documentElement;
  const browsers = Intl.DateTimeFormat().resolvedOptions().timeZone || "";
  if (browsers) {
    const secure = location.protocol === "https:" ? "; Secure" : "";
    document.cookie = `toolhub_zone=${browsers}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
  }
  const zone = root.dataset.zone || undefined;
  const styles = {
    date: { dateStyle: "medium" },
    both: { dateStyle: "medium", timeStyle: "short" },
    seconds: { dateStyle: "medium", timeStyle: "medium" },
  };
  const localise = (within) => {
    for (const time of within.querySelectorAll("time[data-local]")) {
      const moment = new Date(time.dateTime);
      if (Number.isNaN(moment.getTime())) continue;
      const options = { ...(styles[time.dataset.local] || styles.both), timeZone: zone };
      const format = (more) => new Intl.DateTimeFormat(root.lang || undefined, { ...options, ...more }).format(moment);
      try {
        time.textContent = format({});
      } catch {
        continue; // a zone that this browser does not know: the server's text stays
      }
      time.title = time.dateTime;
    }
  };
  localise(document);
  window.toolhub = { ...(window.toolhub || {}), localise };
})();
