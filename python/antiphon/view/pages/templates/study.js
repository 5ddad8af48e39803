(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("points").textContent);
  const get = id => document.getElementById(id);
  const svg = get("plot"), controls = get("controls");
  const MOST_SERIES = 21, MOST_CHOICES = 60, DASHES = ["", "7 3", "2 3"];
  const isText = name => !Array.isArray(data[name]);
  const at = (name, i) => isText(name) ? data[name].names[data[name].of[i]] : data[name][i];
  const count = Object.keys(data).length ? (list => list.length)(isText(Object.keys(data)[0]) ? Object.values(data)[0].of : Object.values(data)[0]) : 0;
  const isSize = name => name === "bytes" || name.endsWith("_bytes");

  const digits = v => {
    if (v === 0) return "0";
    const size = Math.abs(v);
    return size >= 1e6 || size < 1e-3 ? v.toExponential(2) : v.toLocaleString("en", { maximumSignificantDigits: 4 });
  };
  const scaled = (v, units, step) => {
    let place = 0;
    while (place < units.length - 1 && Math.abs(v) >= step) { v /= step; place++; }
    return `${digits(v)} ${units[place]}`;
  };
  const text = (name, v) => {
    if (v === null || v === undefined) return "none";
    if (typeof v === "string") return v || "none";
    if (isSize(name)) return scaled(v, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
    if (!name.endsWith("_ns")) return digits(v);
    return v === 0 ? "0" : scaled(v, ["ns", "µs", "ms", "s"], 1000);
  };

  // Where values lie along an axis: a place in 0..1 for each, and ticks (place, text).
  function scale(name, values, log) {
    if (isText(name)) {
      const known = data[name].names.filter(each => values.includes(each));
      const every = Math.ceil(known.length / 12);
      const place = v => (known.indexOf(v) + 0.5) / known.length;
      return { place, ticks: known.filter((_, i) => i % every === 0).map(each => [place(each), each]) };
    }
    const numbers = log ? values.filter(v => v > 0) : values;
    let low = Math.min(...numbers), high = Math.max(...numbers);
    const base = isSize(name) ? 2 : 10;
    if (log) {
      if (low === high) { low /= base; high *= base; }
      const span = Math.log(high / low), place = v => Math.log(v / low) / span;
      const first = Math.ceil(Math.log(low) / Math.log(base) - 1e-9), last = Math.floor(Math.log(high) / Math.log(base) + 1e-9);
      const every = Math.max(1, Math.ceil((last - first + 1) / 8)), ticks = [];
      for (let power = first; power <= last; power += every) ticks.push(base ** power);
      if (base === 10 && last - first < 2)
        for (let power = first - 1; power <= last; power++) for (const factor of [2, 5]) ticks.push(factor * 10 ** power);
      return { place, ticks: ticks.filter(v => v >= low * 0.999 && v <= high * 1.001).map(v => [place(v), text(name, v)]) };
    }
    low = Math.min(low, 0);
    if (high === low) high = low + 1;
    const place = v => (v - low) / (high - low), rough = (high - low) / 6;
    const magnitude = base === 2 ? 2 ** Math.floor(Math.log2(rough)) : 10 ** Math.floor(Math.log10(rough));
    const step = (base === 2 ? [1, 2] : [1, 2, 5, 10]).map(f => f * magnitude).find(s => s >= rough), ticks = [];
    for (let v = Math.ceil(low / step) * step; v <= high * 1.0001; v += step) ticks.push([place(v), text(name, v)]);
    return { place, ticks };
  }

  function element(name, attributes, parent, content) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (content !== undefined) made.textContent = content;
    parent.append(made);
    return made;
  }

  function filters() {
    const used = [get("x").value, get("series").value];
    const box = get("filters"), before = Object.fromEntries([...box.querySelectorAll("select")].map(s => [s.dataset.axis, s.value]));
    box.replaceChildren();
    for (const axis of AXES) {
      if (used.includes(axis)) continue;
      const values = [...new Set(Array.from({ length: count }, (_, i) => at(axis, i)))];
      if (values.length < 2 || values.length > MOST_CHOICES) continue;
      const label = document.createElement("label"), select = document.createElement("select");
      label.append(axis, select);
      select.dataset.axis = axis;
      select.append(new Option("all", ""));
      values.forEach((value, i) => select.append(new Option(text(axis, value), String(i))));
      select.value = before[axis] ?? "";
      select.values = values;
      select.onchange = draw;
      box.append(label);
    }
  }

  const median = values => {
    const sorted = [...values].sort((a, b) => a - b), half = sorted.length >> 1;
    return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  };

  function draw() {
    const [x, y, series] = ["x", "y", "series"].map(id => get(id).value);
    const logX = get("log-x"), logY = get("log-y");
    logX.disabled = isText(x);
    logY.disabled = isText(y);
    const wanted = [...get("filters").querySelectorAll("select")].filter(s => s.value !== "").map(s => [s.dataset.axis, s.values[s.value]]);
    const groups = new Map();
    let points = 0;
    for (let i = 0; i < count; i++) {
      const a = at(x, i), b = at(y, i);
      if (a === null || b === null || wanted.some(([axis, value]) => at(axis, i) !== value)) continue;
      if ((logX.checked && !isText(x) && a <= 0) || (logY.checked && !isText(y) && b <= 0)) continue;
      const key = series ? text(series, at(series, i)) : "";
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push([a, b, i]);
      points++;
    }
    const W = Math.max(300, svg.parentElement.clientWidth), H = Math.max(240, Math.min(460, 0.5 * W));
    const left = 78, bottom = 52, top = 10, right = 16, w = W - left - right, h = H - top - bottom;
    svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
    svg.replaceChildren();
    get("legend").replaceChildren();
    get("told").textContent = `${points.toLocaleString("en")} points` + (groups.size > MOST_SERIES ? `; the first ${MOST_SERIES} of ${groups.size} lines are drawn` : "");
    svg.setAttribute("aria-label", `${y} over ${x}${series ? `, a line for each ${series}` : ""}: ${points} points`);
    if (!points) return;
    const shown = [...groups].slice(0, MOST_SERIES), all = shown.flatMap(([, list]) => list);
    const sx = scale(x, all.map(p => p[0]), logX.checked && !isText(x)), sy = scale(y, all.map(p => p[1]), logY.checked && !isText(y));
    const place = (a, b) => [left + w * sx.place(a), top + h * (1 - sy.place(b))];
    for (const [t, name] of sy.ticks) {
      const py = top + h * (1 - t);
      element("line", { class: "grid", x1: left, x2: left + w, y1: py, y2: py }, svg);
      element("text", { class: "soft", x: left - 8, y: py + 4, "text-anchor": "end" }, svg, name.slice(0, 12));
    }
    const room = Math.max(1, Math.floor(w / 74)), every = Math.ceil(sx.ticks.length / room);
    sx.ticks.forEach(([t, name], i) => {
      if (i % every) return;
      element("text", { class: "soft", x: left + w * t, y: top + h + 20, "text-anchor": t > 0.97 ? "end" : "middle" }, svg, name.slice(0, 14));
    });
    element("text", { class: "soft", x: left + w / 2, y: H - 8, "text-anchor": "middle" }, svg, x);
    element("text", { class: "soft", transform: `translate(14,${top + h / 2}) rotate(-90)`, "text-anchor": "middle" }, svg, y);
    shown.forEach(([name, list], number) => {
      const colour = COLOURS[number % COLOURS.length], dash = DASHES[Math.floor(number / COLOURS.length) % DASHES.length];
      const columns = new Map();
      for (const [a, b] of list) columns.set(a, [...(columns.get(a) ?? []), b]);
      if (!isText(y) && columns.size > 1) {
        const line = [...columns].map(([a, bs]) => place(a, median(bs))).sort((p, q) => p[0] - q[0]);
        element("polyline", { class: "line on", points: line.map(p => p.map(c => c.toFixed(1)).join()).join(" "), stroke: colour, "stroke-dasharray": dash, style: "stroke-width:2" }, svg);
      }
      for (const [a, b, i] of list) {
        const [cx, cy] = place(a, b);
        const dot = element("circle", { cx: cx.toFixed(1), cy: cy.toFixed(1), r: points > 2000 ? 1.5 : 3, fill: colour, "fill-opacity": 0.75 }, svg);
        element("title", {}, dot, [...new Set([...AXES, y])].map(each => `${each} ${text(each, at(each, i))}`).join(", "));
      }
      if (series) {
        const entry = document.createElement("span"), key = element("svg", { viewBox: "0 0 30 10", "aria-hidden": "true" }, entry);
        element("line", { x1: 0, x2: 30, y1: 5, y2: 5, stroke: colour, "stroke-width": 3, "stroke-dasharray": dash }, key);
        entry.append(`${series} ${name}`);
        get("legend").append(entry);
      }
    });
  }

  function spread(id, box) { // Whether an axis is better logarithmic: its values span more than two decades, or it is a size.
    const name = get(id).value;
    if (isText(name)) return box.checked = false;
    const values = data[name].filter(v => v !== null);
    const span = isSize(name) ? 2 : 100;
    box.checked = values.length > 0 && values.every(v => v > 0) && Math.max(...values) > span * Math.min(...values);
  }
  get("x").onchange = () => { spread("x", get("log-x")); filters(); draw(); };
  get("y").onchange = () => { spread("y", get("log-y")); draw(); };
  get("series").onchange = () => { filters(); draw(); };
  get("log-x").onchange = get("log-y").onchange = draw;
  spread("x", get("log-x"));
  spread("y", get("log-y"));
  filters();
  draw();
  let timer;
  addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(draw, 100); });
})();
