"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const cards = all(".card");
  const byId = new Map(cards.map((card) => [card.dataset.id, card]));
  const wrong = new Set(cards.filter((card) => !card.classList.contains("good")).map((card) => card.dataset.id));

  const svg = (name, attributes = {}, children = []) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const html = (name, properties = {}, children = []) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };
  const line = (kind, x1, y1, x2, y2) => svg("line", { class: kind, x1, y1, x2, y2 });
  const ticks = (top) => {
    const rough = top / 5 || 1, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((one) => one * power >= rough);
    return Array.from({ length: Math.floor(top / step + 1e-9) + 1 }, (_, i) => +(i * step).toPrecision(6));
  };
  const axis = (top, x, from, to, text) =>
    ticks(top).flatMap((at) => {
      const label = svg("text", { x: x(at), y: to + 14, "text-anchor": "middle" }, [text(at)]);
      return [line("grid", x(at), from, x(at), to), label];
    });
  const drawings = []; // [element, draw]: drawn anew where the width changes
  const drawn = (element, draw) => drawings.push([element, draw]);

  // ---- players ----
  let current = null, playing = null;
  const player = (box) => {
    const recording = data.audio[box.dataset.name];
    if (!recording) return;
    if (recording.problem) return box.append(html("div", { className: "missing", textContent: recording.problem }));
    const audio = html("audio", { controls: true, preload: "metadata" });
    const wave = svg("svg", { class: "wave", viewBox: "0 0 240 46", preserveAspectRatio: "none" });
    // all recordings of a card have one scale of time and of loudness, so that they can be compared by eye
    const beside = all(".player", box.closest(".players")).map((one) => data.audio[one.dataset.name]).filter((one) => one?.peaks);
    const longest_s = Math.max(...beside.map((one) => one.duration_s)) || 1;
    const loudest = Math.max(1, ...beside.flatMap((one) => one.peaks));
    const place = (at_s) => (240 * at_s) / longest_s;
    const wide = place(recording.duration_s) / recording.peaks.length;
    const bars = recording.peaks.map((peak, i) => {
      const high = Math.max(0.5, (22 * peak) / loudest);
      return `M${(i * wide).toFixed(2)} ${(23 - high).toFixed(2)}h${(wide * 0.8).toFixed(2)}v${(2 * high).toFixed(2)}h-${(wide * 0.8).toFixed(2)}z`;
    });
    wave.append(svg("path", { d: bars.join("") }));
    if (box.dataset.mark) wave.append(line("part", place(+box.dataset.mark), 0, place(+box.dataset.mark), 46));
    const at = line("at", 0, 0, 0, 46);
    wave.append(at);
    wave.addEventListener("click", (event) => {
      const box = wave.getBoundingClientRect();
      audio.currentTime = ((event.clientX - box.left) / box.width) * longest_s;
      audio.play();
    });
    audio.addEventListener("timeupdate", () => {
      at.setAttribute("x1", place(audio.currentTime));
      at.setAttribute("x2", place(audio.currentTime));
    });
    audio.addEventListener("play", () => {
      if (playing && playing !== audio) playing.pause();
      playing = audio;
      choose(box.closest(".card"), false);
    });
    audio.src = recording.src;
    box.append(wave, audio);
  };
  // sources are set when a card comes near the window: hundreds of players at once are slow
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((one) => one.isIntersecting)) {
      near.unobserve(entry.target);
      player(entry.target);
    }
  }, { rootMargin: "800px" });
  all(".player[data-name]").forEach((box) => near.observe(box));

  const choose = (card, move = true) => {
    if (!card) return;
    if (current) current.classList.remove("current");
    current = card;
    card.classList.add("current");
    if (move) {
      card.hidden = false;
      card.focus({ preventScroll: true });
      card.scrollIntoView({ block: "nearest" });
    }
  };
  cards.forEach((card) => card.addEventListener("click", () => choose(card, false)));
    document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const shown = cards.filter((card) => !card.hidden), i = shown.indexOf(current);
    if (event.key === "j") choose(shown[Math.min(i + 1, shown.length - 1)]);
    else if (event.key === "k") choose(shown[Math.max(i - 1, 0)]);
    else if (/^[a-f]$/.test(event.key)) {
      if (!current) choose(shown[0]);
      const audio = current && $(`.player[data-key="${event.key}"] audio`, current);
      if (!audio) return;
      if (playing && playing !== audio && current.contains(playing) && !playing.ended) audio.currentTime = playing.currentTime;
      if (audio.paused) audio.play();
      else audio.pause();
    }
  });

  // ---- filters ----
  const filters = $("#filters");
  const filter = (only) => {
    const value = (name) => filters.elements[name].value;
    const text = value("text").toLowerCase();
    let shown = 0;
    for (const card of cards) {
      const fits = only
        ? only.includes(card.dataset.id)
        : (!value("level") || card.dataset.level === value("level")) &&
          (!value("tag") || card.dataset.tags.split("|").includes(value("tag"))) &&
          (!value("prompt") || card.dataset.prompt === value("prompt")) &&
          card.textContent.toLowerCase().includes(text);
      card.hidden = !fits;
      shown += fits;
    }
    $("#shown").textContent = `${shown} of ${cards.length} shown`;
  };
  if (filters) {
    filters.addEventListener("input", () => filter());
    filters.addEventListener("submit", (event) => event.preventDefault());
    filters.addEventListener("reset", () => setTimeout(filter));
    filter();
  }
  all("[data-show]").forEach((button) =>
    button.addEventListener("click", () => {
      const names = button.dataset.show.split(" ");
      filter(names);
      choose(byId.get(names[0]));
    }),
  );

  // ---- swim lanes ----
  const lanes = $("#lanes");
  let level = data.lanes ? Math.max(0, data.lanes.findIndex((one) => one.requests.some((request) => wrong.has(request.id)))) : 0;
  let picked = null;
  const drawLanes = (width) => {
    const { title, requests, of, since, chunks } = data.lanes[level];
    const top = Math.max(1, ...requests.map((one) => one.e)), count = Math.max(0, ...requests.map((one) => one.lane)) + 1;
    const high = Math.max(7, Math.min(24, 640 / count)), bottom = count * high;
    const x = (ms) => 26 + (ms / top) * (width - 40), y = (lane) => lane * high;
    const one = requests.find((request) => request.id === picked);
    const together = (other) => one && other.s < one.e && one.s < other.e;
    const root = svg("svg", { class: `lanes${one ? " picked" : ""}`, viewBox: `0 0 ${width} ${bottom + 34}`, height: bottom + 34 });
    root.append(svg("defs", {}, [svg("marker", { id: "head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" }, [svg("path", { class: "arrow-head", d: "M0 0L8 4L0 8z" })])]));
    root.append(...axis(top / 1000, (s) => x(s * 1000), 0, bottom, (s) => `${s} s`));
    for (let lane = 0; lane < count && high >= 12; lane++) root.append(svg("text", { x: 2, y: y(lane) + high / 2 + 4 }, [String(lane)]));
    for (const request of requests) {
      const kinds = ["bar", wrong.has(request.id) || request.failed ? "wrong" : "", together(request) ? "near" : "", request === one ? "picked" : ""];
      const from = y(request.lane) + high * 0.12, tall = high * 0.76, first = request.f ?? request.e;
      const rect = (kind, since, until) => svg("rect", { class: kind, x: x(since), y: from, width: Math.max(0.5, x(until) - x(since)), height: tall });
      const bar = svg("g", { class: kinds.join(" "), "data-id": request.id }, [
        svg("title", {}, [`${request.id}: ${(request.s / 1000).toFixed(2)} to ${(request.e / 1000).toFixed(2)} s`]),
        line("queue", x(Math.min(request.q, request.s)), from + tall / 2, x(request.s), from + tall / 2),
        rect("wait", request.s, first), rect("speak", first, request.e),
        ...request.c.map((at) => line("tick", x(at), from, x(at), from + tall)),
        ...request.w.map(([since, until]) => svg("rect", { class: "stall", x: x(since), y: from + tall * 0.7, width: Math.max(1, x(until) - x(since)), height: tall * 0.3 })),
        rect("edge", request.s, request.e),
      ]);
      bar.addEventListener("click", () => pick(request.id === picked ? null : request.id));
      root.append(bar);
    }
    const at = new Map(requests.map((request) => [request.id, request]));
    for (const [source, victim] of data.hits) {
      const from = at.get(source), to = at.get(victim);
      if (!from || !to) continue;
      const since = Math.max(from.s, Math.min(from.e, (to.s + to.e) / 2));
      const arrow = line(`arrow${[source, victim].includes(picked) ? " near" : ""}`, x(since), y(from.lane) + high / 2, x(Math.min(Math.max(since, to.s), to.e)), y(to.lane) + high / 2);
      arrow.setAttribute("marker-end", "url(#head)");
      root.append(arrow);
    }
    const tabs = html("div", { className: "tabs" }, data.lanes.map((other, i) => {
      const tab = html("button", { type: "button", textContent: other.title, onclick: () => { level = i; picked = null; drawAll(); } });
      tab.setAttribute("aria-pressed", i === level);
      return tab;
    }));
    const said = html("p", { className: "small said" });
    if (one) {
      const names = requests.filter((other) => other !== one && together(other)).map((other) => other.id);
      said.append(html("b", { textContent: one.id }), names.length ? ` was in flight with ${names.join(", ")}. ` : " was alone. ");
      if (byId.has(one.id)) said.append(html("a", { href: `#card-${one.id}`, textContent: "Hear it", onclick: (event) => { event.preventDefault(); show(one.id); } }));
    } else {
      const left = of > requests.length ? `${title}: requests ${since + 1} to ${since + requests.length} of ${of}, in the order of their starts; all are in requests.jsonl. ` : "";
      said.textContent = left + (chunks ? `Their ${chunks} chunks are too many for this page.` : "");
    }
    return [...(data.lanes.length > 1 ? [tabs] : []), html("div", { className: "scroll" }, [root]), said];
  };
  const pick = (id) => {
    const at = data.lanes.findIndex((one) => one.requests.some((request) => request.id === id));
    if (at >= 0) level = at;
    picked = id;
    drawAll();
  };
  const show = (id) => {
    const card = byId.get(id);
    if (card) {
      choose(card);
      card.scrollIntoView({ block: "start" });
    }
  };
  all(".who").forEach((button) =>
    button.addEventListener("click", () => {
      pick(button.dataset.id);
      $("#lanes-title").scrollIntoView();
    }),
  );
  if (lanes && data.lanes.length) drawn(lanes, drawLanes);

  // ---- distributions: dots of requests, or of pairs ----
  const drawDots = (chart) => (width) => {
    const high = 46, values = chart.levels.flatMap((one) => one.dots.map((dot) => dot[1]));
    const top = Math.max(...values) * 1.02 || 1, bottom = chart.levels.length * high;
    const x = (value) => 6 + (value / top) * (width - 24);
    const root = svg("svg", { class: "dots", viewBox: `0 0 ${width} ${bottom + 20}`, height: bottom + 20 }, axis(top, x, 0, bottom, String));
    chart.levels.forEach((one, row) => {
      const sorted = one.dots.map((dot) => dot[1]).sort((a, b) => a - b);
      const at = (share) => { // linear interpolation, as in the tables
        const place = share * (sorted.length - 1), low = Math.floor(place);
        return sorted[low] + (place - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
      };
      if (sorted.length > 1 && !one.arm) root.append(line("median", x(at(0.5)), row * high + 16, x(at(0.5)), row * high + 42), line("ninety", x(at(0.9)), row * high + 16, x(at(0.9)), row * high + 42));
      one.dots.forEach(([id, value], i) => {
        const dot = svg("circle", { class: `${wrong.has(id) ? "wrong " : ""}${one.valid ? "" : "invalid "}${one.arm ?? ""}`, cx: x(value), cy: row * high + 20 + ((i * 7) % 19), r: 4 }, [svg("title", {}, [`${id}: ${+value.toPrecision(4)}`])]);
        dot.addEventListener("click", () => {
          if (byId.has(id)) show(id);
          else if (lanes) {
            pick(id);
            $("#lanes-title").scrollIntoView();
          }
        });
        root.append(dot);
      });
      root.append(svg("text", { class: "name", x: 6, y: row * high + 12 }, [`${one.title} · ${one.figures}${one.of > one.dots.length ? ` · ${one.dots.length} of ${one.of} dots` : ""}${one.valid ? "" : " · invalid"}`]));
    });
    return [root];
  };
  const charts = $("#distributions");
  if (charts) {
    charts.className = "charts";
    for (const chart of data.distributions) {
      const plot = html("div");
      charts.append(html("figure", {}, [html("figcaption", { textContent: chart.title, title: chart.label }), plot]));
      drawn(plot, drawDots(chart));
    }
  }

  const drawAll = () => drawings.forEach(([element, draw]) => element.replaceChildren(...draw(Math.max(300, element.clientWidth))));
  drawAll();
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) drawAll();
    width = innerWidth;
  });

  all("details pre").forEach((pre) => {
    const button = html("button", { type: "button", className: "copy", textContent: "copy" });
    button.addEventListener("click", () => {
      getSelection().selectAllChildren(pre);
      button.textContent = document.execCommand("copy") ? "copied" : "selected";
    });
    pre.before(button);
  });
})();
