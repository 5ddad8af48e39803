"use strict";
// Plays a schedule on the picture of its fabric, or the bars of a chart. The data is that of view/pages/player.py.
{ // In a block, so that other scripts see none of its names; not indented, to save a page the bytes.
const SECONDS = 12; // a whole run at 1x
const NO_LANE = 255;
const still = matchMedia("(prefers-reduced-motion: reduce)");
const digits = (value) => {
  if (!value) return "0";
  const places = Math.max(0, Math.min(9, 2 - Math.floor(Math.log10(Math.abs(value)))));
  return value.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places });
};
const time = (ns) => {
  const [unit, length] = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]].find(([, length]) => ns >= length) ?? ["ns", 1];
  return `${digits(ns / length)} ${unit}`;
};
const unpacked = async (text) => {
  const stream = new Blob([Uint8Array.from(atob(text), (char) => char.charCodeAt(0))]).stream();
  return new Uint8Array(await new Response(stream.pipeThrough(new DecompressionStream("deflate"))).arrayBuffer());
};
// The next of some times after `at`, or with way -1 before it.
const nearest = (edges, at, way, length) => way > 0 ? Math.min(length, ...edges.filter((edge) => edge > at + 1e-6)) : Math.max(0, ...edges.filter((edge) => edge < at - 1e-6));
const begins = (message) => message[3] ?? message[4];

// A clock with buttons. `show(at)` draws a time and returns [what is seen, what is said]; `edge(at, way)` is the next
// time to step to; `off()` takes away all that was drawn.
function clock(root, look) {
  const part = (name) => root.querySelector(`.player-${name}`);
  const [play, seek, speed, stop, now] = ["play", "seek", "speed", "off", "now"].map(part);
  const self = { at: 0, on: false, playing: false };
  let last = 0, said = 0;
  const draw = () => {
    const [seen, told] = look.show(self.at);
    now.textContent = seen;
    seek.value = Math.round(1000 * self.at / look.length());
    if (!self.playing || performance.now() - said > 1000) {
      seek.setAttribute("aria-valuetext", told);
      said = performance.now();
    }
  };
  const tick = (stamp) => {
    if (!self.playing) return;
    const passed = stamp - last;
    // With reduced motion: from step to step, without haste.
    if (!still.matches || passed > 700) {
      last = stamp;
      const next = self.at + look.length() * Math.min(passed, 1000) * speed.value / (1000 * SECONDS);
      self.at = Math.min(still.matches ? Math.max(next, look.edge(self.at, 1)) : next, look.length());
      if (self.at >= look.length()) self.pause();
      draw();
    }
    requestAnimationFrame(tick);
  };
  const label = () => {
    play.toggleAttribute("data-playing", self.playing);
    play.setAttribute("aria-label", self.playing ? "Pause" : "Play");
    stop.disabled = !self.on;
  };
  self.pause = () => { self.playing = false; label(); };
  self.go = (at) => { self.on = true; self.at = Math.max(0, Math.min(at, look.length())); label(); draw(); };
  self.again = () => { if (self.on) self.go(self.at); };
  self.toggle = () => {
    if (self.playing) { self.pause(); return draw(); }
    self.playing = self.on = true;
    if (self.at >= look.length()) self.at = 0;
    last = performance.now();
    label();
    requestAnimationFrame(tick);
  };
  self.step = (way) => { self.pause(); self.go(look.edge(self.at, way)); };
  self.off = () => {
    [self.on, self.at, seek.value] = [false, 0, 0];
    look.off();
    self.pause();
    seek.setAttribute("aria-valuetext", now.textContent = look.still);
  };
  play.addEventListener("click", self.toggle);
  part("back").addEventListener("click", () => self.step(-1));
  part("forward").addEventListener("click", () => self.step(1));
  stop.addEventListener("click", self.off);
  seek.addEventListener("input", () => { self.pause(); self.go(look.length() * seek.value / 1000); });
  root.addEventListener("keydown", (event) => {
    if (event.target.matches("select") || event.altKey || event.ctrlKey || event.metaKey) return;
    const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (way) self.step(way);
    else if (event.key === " " && !event.target.matches("button")) self.toggle();
    else return;
    event.preventDefault();
  });
  root.hidden = false;
  self.off();
  return self;
}

// Bars: a line moves over them, and those under it light up.
function bars(root) {
  const chart = document.querySelector(root.dataset.bars);
  const scale = +chart?.dataset.nsPerPixel, all = [...chart?.querySelectorAll("rect.block") ?? []];
  if (!all.length) return;
  const length = +root.dataset.length, head = document.createElementNS(chart.namespaceURI, "line");
  head.setAttribute("class", "playhead");
  head.setAttribute("y2", chart.viewBox.baseVal.height - 50);
  const blocks = all.map((block) => {
    const start = block.x.baseVal.value * scale;
    return { block, start, end: start + block.width.baseVal.value * scale, text: block.querySelector("title")?.textContent ?? "" };
  });
  const edges = blocks.map(({ start }) => start);
  clock(root, {
    length: () => length,
    still: `${time(length)} in all`,
    edge: (at, way) => nearest(edges, at, way, length),
    show(at) {
      chart.classList.add("playing");
      all[0].parentNode.append(head);
      head.setAttribute("transform", `translate(${at / scale})`);
      const on = [];
      for (const each of blocks) {
        const state = at >= each.end ? "past" : at >= each.start ? "on" : "";
        if (state === "on") on.push(each.text);
        if (state !== each.state) each.block.dataset.state = each.state = state;
      }
      const names = [...new Set(on)], doing = names.slice(0, 4).join(" · ") + (names.length > 4 ? ` · and ${names.length - 4} more` : "") || "nothing";
      const seen = `${time(at)} of ${time(length)}: ${doing}`;
      return [seen, seen];
    },
    off() {
      chart.classList.remove("playing");
      head.remove();
    },
  });
}

function fabric(root) {
  const data = JSON.parse(root.querySelector("script").textContent);
  const picture = document.querySelector(root.dataset.picture);
  const found = picture?.querySelectorAll(data.heat ? "[data-node]" : "[data-link]");
  if (!found?.length) return;
  const part = (name) => root.querySelector(`.player-${name}`);
  const [laneBox, chunkBox, list, key, note] = ["lane", "chunk", "steps", "key", "note"].map(part);
  const shapes = [], nodes = [];
  found.forEach((shape) => { shapes[+(data.heat ? shape.dataset.node : shape.dataset.link)] = shape; });
  picture.querySelectorAll("[data-node]").forEach((node) => { nodes[+node.dataset.node] = node.querySelector(".shape") ?? node; });
  const property = data.heat ? "fill" : "stroke", isTime = data.unit === "time";
  const colour = (group) => group === NO_LANE ? "var(--accent)" : `var(--t${group % data.colours})`;
  const ranks = data.node_of_rank.length, nodeOf = (rank) => data.node_of_rank[rank] ?? rank - ranks;
  const who = (rank) => rank < ranks ? `rank ${rank}` : `switch ${rank - ranks}`;
  const say = (at) => isTime ? time(at) : `step ${Math.min(Math.floor(at) + 1, run.length)}`;
  let run = null, frames = null, chunks = [], followed = null, drawn = [], full = [], shown = -1, asked = 0;

  const paint = (shape, state, group, level) => {
    const strength = Math.round(30 + 70 * level / data.levels);
    const value = state ? `color-mix(in srgb, ${colour(group)} ${strength}%, var(--u0))` : "var(--u0)";
    if (drawn[shape] !== value) shapes[shape].style[property] = drawn[shape] = value;
  };
  const fill = (node, share) => {
    if (data.heat || full[node] === share || !nodes[node]) return;
    full[node] = share;
    nodes[node].style.fill = `color-mix(in srgb, var(--good) ${Math.round(share * 60 / 255)}%, var(--node))`;
  };
  const windowed = (at) => {
    const here = Math.min(Math.floor(at / run.window), run.windows - 1);
    if (here === shown) return;
    shown = here;
    self.busy = 0;
    for (let shape = 0; shape < data.shapes; shape++) {
      const place = shape * run.windows + here, level = frames[place];
      self.busy += level > 0;
      paint(shape, level, frames[run.windows * data.shapes + place], level);
    }
    data.node_of_rank.forEach((node, rank) => fill(node, frames[run.windows * (2 * data.shapes + rank) + here]));
  };
  // The chunk's links: those that carry it now are bright, those that have are faint. Nodes that have received it are full.
  const follow = (at) => {
    const [lane, , messages] = followed, group = Math.floor(lane / run.lanes), states = new Map(), touched = new Set();
    const here = messages.reduce((sum, each) => sum + (at >= begins(each)) + 1e5 * (at >= each[4]), 0);
    if (here === shown) return;
    shown = here;
    let current = -1;
    messages.forEach((each, step) => {
      const [from, to, , , finish, links] = each, begun = at >= begins(each), over = at >= finish;
      if (begun) current = step;
      const state = !begun ? 0 : over ? 1 : data.levels;
      for (const shape of data.heat ? [from, to].map(nodeOf) : links) states.set(shape, Math.max(state, states.get(shape) ?? 0));
      if (over) touched.add(nodeOf(to));
      const item = list.children[step];
      item.className = over ? "done" : "";
    });
    self.busy = [...states.values()].filter((state) => state === data.levels).length;
    for (let shape = 0; shape < data.shapes; shape++) paint(shape, states.get(shape) ?? 0, group, states.get(shape) ?? 0);
    data.node_of_rank.forEach((node) => fill(node, touched.has(node) ? 255 : 0));
    if (current !== self.current) {
      list.children[self.current]?.removeAttribute("aria-current");
      const item = list.children[self.current = current];
      item?.setAttribute("aria-current", "step");
      if (item) list.scrollTop = item.offsetTop - list.offsetTop - list.clientHeight / 2;
    }
  };
  const text = ([from, to, adds, start, finish]) => {
    const when = isTime ? (start === null ? "" : `${time(start)} to `) + time(finish) : `step ${start + 1}`;
    return `${who(from)} → ${who(to)} ${adds ? "adds" : "stores"}, ${when}`;
  };
  const self = { busy: 0, current: -1 };
  const player = clock(root, {
    length: () => run?.length ?? 1,
    still: `The picture shows the whole ${isTime ? "run" : "schedule"}. Press play to see it ${isTime ? "over time" : "step by step"}.`,
    edge(at, way) {
      const size = run.window;
      if (followed) return nearest(followed[2].map(begins), at, way, run.length);
      return way > 0 ? (Math.floor(at / size + 1e-6) + 1) * size : (Math.ceil(at / size - 1e-6) - 1) * size;
    },
    show(at) {
      if (!frames) return ["", ""];
      (followed ? follow : windowed)(at);
      const phases = run.phases.filter(([, start, end]) => start <= at && at < end).map(([name]) => name);
      const phase = phases.length ? phases.join(" and ") : at >= run.length ? "done" : "between phases";
      const where = `${say(at)} of ${isTime ? time(run.length) : run.length}`;
      const busy = `${self.busy} of ${data.shapes} ${data.heat ? "nodes send" : "links " + (followed ? "carry the chunk" : "in use")}`;
      const step = followed && self.current >= 0 ? ` · ${self.current + 1}: ${text(followed[2][self.current])}` : "";
      return [`${where} · ${phase} · ${busy}${step}`, `${where}, phase ${phase}${step}`];
    },
    off() {
      shapes.forEach((shape) => { shape.style[property] = ""; });
      nodes.forEach((node) => { node.style.fill = ""; });
      [drawn, full, shown] = [[], [], -1];
    },
  });

  const choose = () => {
    const lane = laneBox.value, of = chunks.filter((each) => each[0] === +lane);
    followed = lane === "" ? null : of.find((each) => each[1] === +chunkBox.value) ?? of[0];
    chunkBox.disabled = !followed;
    chunkBox.replaceChildren(...(followed ? of : []).map((each) => new Option(each[1], each[1], false, each === followed)));
    list.hidden = !followed;
    list.innerHTML = followed ? followed[2].map((each) => `<li>${text(each)}</li>`).join("") : "";
    [self.current, shown] = [-1, -1];
    if (followed && !player.on) player.go(begins(followed[2][0]));
    else player.again();
  };
  const load = async (number) => {
    const mine = ++asked, next = data.runs[number];
    player.off();
    [frames, followed] = [null, null];
    root.querySelectorAll("button, select, input").forEach((each) => { if (!each.matches(".player-off")) each.disabled = !next; });
    if (!next) {
      note.textContent = "This run is not recorded: the page would be too large.";
      key.textContent = list.textContent = "";
      return;
    }
    const [bytes, messages] = await Promise.all([unpacked(next.frames), unpacked(next.messages)]);
    if (mine !== asked) return;
    // Of shares only the differences are there.
    for (let rank = 0, at = 2 * data.shapes * next.windows; at < bytes.length; rank++) for (let w = 0, share = 0; w < next.windows; w++, at++) bytes[at] = share += bytes[at];
    [run, frames, chunks] = [next, bytes, JSON.parse(new TextDecoder().decode(messages))];
    const groups = new Set(bytes.subarray(data.shapes * run.windows, 2 * data.shapes * run.windows).filter((group) => group !== NO_LANE));
    const few = [...groups].sort((a, b) => a - b).slice(0, data.colours);
    key.innerHTML = few.map((group) => {
      const first = group * run.lanes, lanes = run.lanes > 1 ? `from lane ${first} on` : `lane ${first}`;
      return `<span><i style="background:${colour(group)}"></i>${lanes}</span>`;
    }).join("") + (groups.size > few.length ? `<span>the other ${run.lanes > 1 ? "groups of lanes" : "lanes"} repeat these colours</span>` : "");
    note.textContent = (isTime ? `Each frame shows ${time(run.window)} of the run; 1× plays the run in ${SECONDS} s. The colour is stronger where a ${data.heat ? "node" : "link"} is in use for longer. ` : run.window > 1 ? `Each frame shows ${run.window} steps. ` : "The first chunk of every lane is shown; others follow it. ") + (data.heat ? "" : `The fuller a node, the more of what it receives it has${isTime ? " and has added" : ""}.`);
    laneBox.replaceChildren(new Option("none", ""), ...[...new Set(chunks.map((each) => each[0]))].map((lane) => new Option(lane, lane)));
    choose();
    player.off();
    root.dataset.ready = number;
  };
  laneBox.addEventListener("change", choose);
  chunkBox.addEventListener("change", choose);
  list.addEventListener("click", (event) => {
    const step = [...list.children].indexOf(event.target.closest("li"));
    if (step >= 0) { player.pause(); player.go(begins(followed[2][step])); }
  });
  document.querySelectorAll("button[data-run]").forEach((button) => button.addEventListener("click", () => load(+button.dataset.run)));
  load(0);
}

document.querySelectorAll(".player[data-bars]").forEach(bars);
if (window.DecompressionStream) document.querySelectorAll(".player[data-picture]").forEach(fabric);
}
