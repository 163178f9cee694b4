(() => {
  "use strict";
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const colours = (isDark) => isDark
    ? { ink: "#e4e9ee", line: "#33404d", card: "#18212b" }
    : { ink: "#1f2933", line: "#d2d9e0", card: "#ffffff" };

  // Letters and lines of a figure in the colours of the page; marks are readable on both.
  const themed = (layout, isDark) => {
    const c = colours(isDark);
    const change = { "font.color": c.ink, "hoverlabel.bgcolor": c.card, "hoverlabel.font.color": c.ink };
    for (const key of Object.keys(layout).concat(["xaxis", "yaxis"])) {
      if (/^[xy]axis\d*$/.test(key)) {
        for (const part of ["gridcolor", "zerolinecolor", "linecolor"]) change[`${key}.${part}`] = c.line;
      }
    }
    return change;
  };

  const NARROW_PX = 700;
  const drawn = [];
  const draw = (script) => {
    const place = document.getElementById(script.dataset.for);
    const figure = JSON.parse(script.textContent);
    if (place.clientWidth < NARROW_PX) {
      // No room for words beside each point: the chosen ones keep theirs.
      for (const trace of figure.data) if (trace.meta === "front") trace.mode = "markers";
    }
    const options = { responsive: true, displaylogo: false, displayModeBar: false };
    drawn.push(place);
    Plotly.newPlot(place, figure.data, figure.layout, options)
      .then(() => Plotly.relayout(place, themed(figure.layout, dark.matches)))
      .then(() => { if (place.id === "figure-front") { place.dataset.ready = "yes"; mark(); } });
  };
  const repaint = (isDark) => {
    for (const place of drawn) if (place.layout) Plotly.relayout(place, themed(place.layout, isDark));
  };

  // ---- the weight and its winner ------------------------------------------------------------
  const slider = document.getElementById("weight");
  const told = document.getElementById("winner");
  const choices = slider ? JSON.parse(document.getElementById("winners").textContent) : [];
  const mark = () => {
    const place = document.getElementById("figure-front");
    if (!slider || !place || !place.dataset.ready) return;
    const choice = choices[Number(slider.value)];
    Plotly.relayout(place, { annotations: choice.own ? [] : [{
      x: choice.x, y: choice.y, text: `best at ${choice.weight}: trial ${choice.trial}`,
      showarrow: true, arrowhead: 2, ax: 0, ay: 44, arrowcolor: colours(dark.matches).ink,
      bgcolor: colours(dark.matches).card, bordercolor: colours(dark.matches).line, borderpad: 3,
    }] });
  };
  const name = () => {
    const choice = choices[Number(slider.value)];
    const strong = document.createElement("strong");
    strong.textContent = `trial ${choice.trial}: ${choice.flags}`;
    const rest = (1 - Number(choice.weight)).toFixed(2);
    told.replaceChildren(
      `Latency ${choice.weight}, throughput ${rest}: `, strong,
      `, ${choice.gain} against ${choice.rival}` + (choice.own ? " (the study's own weight)" : ""),
    );
    slider.setAttribute("aria-valuetext", `latency ${choice.weight}: trial ${choice.trial}`);
  };
  if (slider) slider.addEventListener("input", () => { name(); mark(); });

  // ---- tables that sort ---------------------------------------------------------------------
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    table.querySelectorAll("thead th").forEach((title, column) => {
      const button = document.createElement("button");
      button.textContent = title.textContent;
      title.replaceChildren(button);
      button.addEventListener("click", () => {
        const up = title.getAttribute("aria-sort") !== "ascending";
        table.querySelectorAll("th[aria-sort]").forEach((th) => th.removeAttribute("aria-sort"));
        title.setAttribute("aria-sort", up ? "ascending" : "descending");
        const key = (row) => row.cells[column].dataset.key ?? row.cells[column].textContent;
        const rows = [...body.rows].map((row) => [key(row), row]);
        rows.sort(([a], [b]) => {
          if (a === "" || b === "") return (a === "") - (b === "");
          const [x, y] = [Number(a), Number(b)];
          const order = Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b) : x - y;
          return up ? order : -order;
        });
        body.append(...rows.map(([, row]) => row));
      });
    });
  }

  // ---- paper: drawn for its width, then fitted to the sheet whatever that is -------------------
  const onPaper = (place) => {
    if (!place.layout) return;
    const width = place.closest(".three") ? 300 : place.closest(".side") ? 400 : 760;
    Plotly.relayout(place, { width, height: place.clientHeight });
    for (const svg of place.querySelectorAll("svg.main-svg")) {
      svg.setAttribute("viewBox", `0 0 ${svg.getAttribute("width")} ${svg.getAttribute("height")}`);
    }
    place.style.setProperty("--ratio", `${width} / ${place.clientHeight}`);
  };
  const onScreen = (place) => {
    for (const svg of place.querySelectorAll("svg.main-svg")) svg.removeAttribute("viewBox");
    Plotly.relayout(place, { width: null, height: null, autosize: true });
  };

  // ---- drawing: what is seen first at once, the rest when the browser has time -----------------
  const scripts = [...document.querySelectorAll("script.drawing")];
  if (window.Plotly) {
    const later = window.requestIdleCallback || ((work) => setTimeout(work, 1));
    const next = () => {
      if (scripts.length) { draw(scripts.shift()); later(next); }
      else document.documentElement.dataset.drawn = "yes";
    };
    next();
    dark.addEventListener("change", (event) => { repaint(event.matches); mark(); });
    window.addEventListener("beforeprint", () => {
      while (scripts.length) draw(scripts.shift());
      repaint(false);
      for (const place of drawn) onPaper(place);
    });
    window.addEventListener("afterprint", () => {
      for (const place of drawn) onScreen(place);
      repaint(dark.matches);
    });
  } else {
    for (const place of document.querySelectorAll(".figure")) {
      place.textContent = "This figure needs plotly, which could not be loaded.";
    }
    document.documentElement.dataset.drawn = "yes";
  }
})();
