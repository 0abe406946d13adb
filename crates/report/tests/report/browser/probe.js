// What a reader would see, as one object. Runs in the page, after it was loaded.
(() => {
  const box = (element) => element.getBoundingClientRect();
  const text = (element) => (element ? element.textContent.replace(/\s+/g, " ").trim() : null);
  const name = (element) => JSON.stringify(text(element));
  const problems = [];
  const shown = (element) => box(element).width > 0;

  for (const figure of document.querySelectorAll("figure")) {
    const drawings = [...figure.querySelectorAll("svg")].filter(shown);
    if (drawings.length !== 1) problems.push(`a figure shows ${drawings.length} drawings`);
    for (const svg of drawings) {
      const label = svg.getAttribute("aria-label");
      if (svg.getAttribute("role") !== "img" || !label) problems.push("a drawing without a label");
      const texts = [...svg.querySelectorAll("text")];
      if (texts.length < 3) problems.push(`${texts.length} texts in: ${label}`);
      const scale = box(svg).width / svg.viewBox.baseVal.width;
      for (const one of texts) {
        const size = parseFloat(getComputedStyle(one).fontSize) * scale;
        if (size < 10.5) problems.push(`${name(one)} is ${size.toFixed(1)} pixels high`);
        if (!text(one)) problems.push(`an empty text in: ${label}`);
        const { left, right } = box(one);
        if (left < 0 || right > innerWidth) problems.push(`${name(one)} leaves the page`);
      }
      for (const [place, one] of texts.entries()) {
        for (const other of texts.slice(place + 1)) {
          const [a, b] = [box(one), box(other)];
          const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
          const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
          // Boxes hold a line's whole height; letters fill about two thirds of it.
          if (wide > 0 && high > 4) problems.push(`${name(one)} and ${name(other)} overlap`);
        }
      }
    }
  }
  const bottom = (selector) => {
    const element = document.querySelector(selector);
    return element ? box(element).bottom : null;
  };
  // The note below the bars, or the last text of a load's page, is in the scheme's quieter ink.
  const labels = [...document.querySelectorAll("svg text")].filter(shown);
  const notes = labels.filter((one) => one.textContent.includes("mean over the blocks"));
  const label = (notes.length ? notes : labels).pop();
  return {
    problems,
    figures: document.querySelectorAll("figure").length,
    inner_width: innerWidth,
    inner_height: innerHeight,
    scroll_width: document.documentElement.scrollWidth,
    verdict: text(document.querySelector("#verdict")),
    verdict_bottom: bottom("#verdict"),
    trust_bottom: bottom(".trust"),
    page_color: getComputedStyle(document.body).backgroundColor,
    label_color: label ? getComputedStyle(label).fill : null,
    scripts: document.scripts.length,
  };
})()
