"use strict";
// What all pages can do: sort tables, save pictures and tables, scroll wide boxes by keyboard.
document.documentElement.classList.add("js");
(() => {
  const make = (tag, text, act) => {
    const made = document.createElement(tag);
    made.textContent = text;
    if (act) { made.type = "button"; made.addEventListener("click", act); }
    return made;
  };
  const save = (name, content) => {
    const link = document.createElement("a");
    link.href = typeof content === "string" ? content : URL.createObjectURL(content);
    link.download = name;
    link.click();
  };
  const buttons = (where, list) => {
    let bar = where.querySelector(":scope > .save");
    if (!bar) { bar = document.createElement("div"); bar.className = "save"; where.append(bar); }
    list.forEach(([text, label, act]) => bar.append(Object.assign(make("button", text, act), { title: label, ariaLabel: label })));
  };

  // A number behind a text: what data-value says, or what it begins with, times its unit.
  const UNITS = { ps: 1e-12, ns: 1e-9, "µs": 1e-6, us: 1e-6, ms: 1e-3, s: 1, B: 1, kB: 1e3, MB: 1e6, GB: 1e9, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, pJ: 1e-12, nJ: 1e-9, "µJ": 1e-6, mJ: 1e-3, J: 1, kJ: 1e3, mW: 1e-3, W: 1, kW: 1e3, MW: 1e6 };
  const value = (cell) => {
    const text = cell.dataset.value ?? cell.textContent.trim();
    const found = /^[<>+~ ]*(-?[\d,]*\.?\d+(?:e[+-]?\d+)?)\s*([a-zA-Zµ]*)/.exec(text);
    return found ? parseFloat(found[1].replaceAll(",", "")) * (UNITS[found[2]] ?? 1) : text === "–" || text === "-" || !text ? Infinity : text;
  };
  document.querySelectorAll("table.sort").forEach((table) => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      if (!head.textContent.trim()) return;
      const button = make("button", head.textContent, () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((each) => each.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = [...table.tBodies[0].rows].map((row) => [value(row.cells[column]), row]);
        rows.sort(([a], [b]) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1) * (up ? 1 : -1));
        rows.forEach(([, row]) => table.tBodies[0].append(row));
      });
      head.replaceChildren(button);
      head.setAttribute("scope", "col");
    });
  });

  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  document.querySelectorAll("table[data-download]").forEach((table) => {
    const csv = () => [...table.rows].map((row) => [...row.cells].map((cell) => quoted(cell.textContent.trim())).join(",")).join("\r\n");
    buttons(table.closest("section") ?? table.parentElement, [["CSV", "Save the table as CSV", () => save(`${table.dataset.download}.csv`, new Blob([csv()], { type: "text/csv" }))]]);
  });
  document.querySelectorAll("script[data-download]").forEach((data) => {
    buttons(data.parentElement, [["JSON", "Save the data as JSON", () => save(`${data.dataset.download}.json`, new Blob([data.textContent], { type: "application/json" }))]]);
  });

  // A picture alone: every element with the look that it has here.
  const LOOKS = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stroke-linecap", "stroke-linejoin", "opacity", "font-size", "font-family", "font-weight", "text-anchor", "paint-order", "display"];
  const alone = (svg) => {
    const copy = svg.cloneNode(true);
    const [first, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    const own = [svg, ...svg.querySelectorAll("*")], copied = [copy, ...copy.querySelectorAll("*")];
    own.forEach((element, at) => {
      const look = getComputedStyle(element);
      copied[at].setAttribute("style", LOOKS.map((name) => `${name}:${look.getPropertyValue(name)}`).join(";"));
    });
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    copy.setAttribute("style", `background:${getComputedStyle(document.documentElement).getPropertyValue("--card")}`);
    return [new XMLSerializer().serializeToString(copy), width, height];
  };
  document.querySelectorAll("figure.picture").forEach((figure) => {
    const svg = () => figure.querySelector("svg:not(.signs svg, button svg)"), name = figure.dataset.picture;
    const png = () => {
      const [text, width, height] = alone(svg()), image = new Image();
      image.onload = () => {
        const canvas = Object.assign(document.createElement("canvas"), { width: 2 * width, height: 2 * height });
        const pen = canvas.getContext("2d");
        pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--card");
        pen.fillRect(0, 0, canvas.width, canvas.height);
        pen.drawImage(image, 0, 0, canvas.width, canvas.height);
        canvas.toBlob((blob) => save(`${name}.png`, blob));
      };
      image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
    };
    const file = () => save(`${name}.svg`, new Blob([alone(svg())[0]], { type: "image/svg+xml" }));
    buttons(figure, [["SVG", "Save the picture as SVG", file], ["PNG", "Save the picture as PNG", png]]);
  });

  // What scrolls can be scrolled by keyboard.
  const scrolling = () => document.querySelectorAll(".wide").forEach((box) => {
    if (box.scrollWidth > box.clientWidth + 1) {
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", box.querySelector("[aria-label]")?.getAttribute("aria-label") ?? box.closest("section")?.querySelector("h2")?.textContent ?? "table");
    } else box.removeAttribute("tabindex");
  });
  addEventListener("resize", scrolling);
  scrolling();
})();
