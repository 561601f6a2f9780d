// Draws every chart of the page into its place, as wide as there is room, and again when the room changes.
"use strict";
const charts = JSON.parse(document.getElementById("charts").textContent);
const ELASTIC = 400;  // views of at least this width take what room there is; narrower ones keep the size they need
const NARROW = 600, LEAST = 120, MOST = 900;

function views(spec, visit) {
  visit(spec);
  for (const key of ["vconcat", "hconcat", "concat", "layer"]) for (const each of spec[key] ?? []) views(each, visit);
  if (spec.spec) views(spec.spec, visit);
}

async function draw(place) {
  const room = place.clientWidth, isNarrow = room < NARROW, says = place.getAttribute("aria-label");
  const embed = (width) => {
    const spec = structuredClone(charts[place.dataset.chart]);
    views(spec, (view) => {
      if (view.width >= ELASTIC) view.width = width(view.width);
      const rows = view.encoding?.y?.axis;
      if (isNarrow && rows?.labelLimit) rows.labelLimit = 100;
    });
    // A screen reader is told what the figure shows, not every dot; the page's ground shows through.
    spec.description = says;
    Object.assign(spec.config, { aria: false, background: null });
    Object.assign(spec.config.legend, isNarrow ? { orient: "bottom", columns: 2, labelLimit: room / 2 - 50 } : {});
    return vegaEmbed(place, spec, {
      mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false, tooltip: { disableDefaultStyle: true } });
  };
  // How much a chart needs beside its views is known once it is drawn; labels may then take their places anew.
  for (let pass = 0, over = 0; pass < 3; pass++) {
    await embed((width) => pass ? Math.min(MOST, Math.max(LEAST, Math.floor(width - over))) : width);
    const more = place.querySelector("svg").getBoundingClientRect().width - room;
    if (more <= 0 && (pass || more > -8)) break;
    over += more;
  }
}

const places = [...document.querySelectorAll("[data-chart]")];
let room = 0, waiting = 0;
function drawAll() {
  room = document.documentElement.clientWidth;
  window.drawn = Promise.all(places.map(draw));
}
drawAll();
addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => { if (document.documentElement.clientWidth !== room) drawAll(); }, 150);
});
