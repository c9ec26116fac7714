// An answer of lines of JSON, each taken as soon as it is there.
"use strict";

(() => {
  const readLines = async (answer, take) => {
    const reader = answer.body.getReader();
    const decoder = new TextDecoder();
    let kept = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (kept + decoder.decode(value, { stream: true })).split("\n");
      kept = lines.pop();
      for (const line of lines) take(JSON.parse(line));
    }
  };

  window.toolhub = { ...(window.toolhub || {}), readLines };
})();
