// Replaces the page's content by the newest report until the load has ended.
"use strict";
const INTERVAL_MS = 1000;
let shown = null;

async function update() {
  const status = document.getElementById("status");
  let over = false;
  try {
    const state = await (await fetch("state", { cache: "no-store" })).json();
    if (state.version !== shown) {
      const text = await (await fetch("report", { cache: "no-store" })).text();
      const page = new DOMParser().parseFromString(text, "text/html");
      const unfolded = new Set();
      for (const summary of document.querySelectorAll("details[open] > summary")) {
        unfolded.add(summary.textContent);
      }
      for (const summary of page.querySelectorAll("details > summary")) {
        summary.parentElement.open = unfolded.has(summary.textContent);
      }
      // The footer of a stored report does not apply to a page that loads its content.
      if (!state.over) page.querySelector("footer")?.remove();
      document.title = page.title;
      document.getElementById("report").replaceChildren(...page.body.childNodes);
      shown = state.version;
    }
    over = state.over;
    status.textContent = state.text;
  } catch {
    over = true;
    status.textContent = "prony no longer runs; this is the last state that it sent";
  }
  if (!over) setTimeout(update, INTERVAL_MS);
}

update();
