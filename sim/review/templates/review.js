// Tables that can be copied, the numbers behind figures when they are asked for, and paper that shows what is folded.
"use strict";
const behind = JSON.parse(document.getElementById("behind").textContent);

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // a browser that keeps the clipboard from files still knows the old way
    const area = Object.assign(document.createElement("textarea"), { value: text });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  button.textContent = "copied";
  setTimeout(() => { button.textContent = "copy as TSV"; }, 1500);
}

function copyable(caption, rows) {
  const button = Object.assign(document.createElement("button"), { className: "copy", type: "button", textContent: "copy as TSV" });
  button.onclick = () => copy(rows().map((row) => row.join("\t")).join("\n"), button);
  caption.append(button);
}

for (const table of document.querySelectorAll("table[id]")) {
  const name = table.caption.textContent;
  copyable(table.caption, () => [...table.rows].map((row) => [...row.cells].map((cell) => cell.innerText)));
  table.caption.querySelector("button").setAttribute("aria-label", `copy table ${name} as TSV`);
}

function fill(details) {
  if (details.querySelector("table")) return;
  const rows = behind[details.dataset.table].map((row) => row.map((cell) => cell ?? ""));
  const table = document.createElement("table");
  copyable(table.createCaption(), () => rows);
  rows.forEach((row, index) => {
    const line = (index ? table.tBodies[0] ?? table.createTBody() : table.createTHead()).insertRow();
    for (const cell of row) {
      const place = line.appendChild(document.createElement(index ? "td" : "th"));
      place.textContent = cell;
    }
  });
  const wide = Object.assign(document.createElement("div"), { className: "wide", tabIndex: 0 });
  wide.append(table);
  details.append(wide);
}
for (const details of document.querySelectorAll(".data")) details.ontoggle = () => fill(details);

const folded = [...document.querySelectorAll("details:not(.data)")];
let wereOpen = [];
addEventListener("beforeprint", () => {
  wereOpen = folded.map((each) => each.open);
  for (const each of folded) each.open = true;
});
addEventListener("afterprint", () => folded.forEach((each, index) => { each.open = wereOpen[index]; }));
