"use strict";
/* Plays a scene: panels of SVG whose texts, classes and attributes follow the values of a frame.
   scripts/learn_pages.py writes the scenes from traces of the RTL; the bindings are explained there,
   in scripts/learn/drawing.py. No network, no library; works from a folder. */
function learn(name, { panels: drawings, scenes }) {
    const root = document.getElementById(name);
    const make = (tag, attributes = {}, ...children) => {
        const element = document.createElement(tag);
        for (const [key, value] of Object.entries(attributes)) {
            if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
            else element.setAttribute(key, value);
        }
        element.append(...children);
        return element;
    };
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    for (const { values } of scenes)  /* undo the run lengths: value, count, value, count … */
        for (const [key, runs] of Object.entries(values))
            values[key] = runs.flatMap((x, index) => index % 2 ? [] : Array(runs[index + 1]).fill(x));
    let scene, frame = 0, timer = null, asked = null, pinned = null;

    const value = key => scene.values[key][frame];
    const bound = attribute => [...panels.querySelectorAll(`[${attribute}]`)];

    /* ---- What is to be seen in this frame. */
    function show(next, moves = false) {
        frame = Math.max(0, Math.min(next, scene.names.length - 1));
        for (const x of bound("data-t")) x.textContent = value(x.dataset.t);
        for (const x of bound("data-c")) {
            x.dataset.own ??= x.getAttribute("class") ?? "";
            x.setAttribute("class", `${x.dataset.own} ${value(x.dataset.c)}`);
        }
        for (const x of bound("data-a")) {
            const [attribute, key] = x.dataset.a.split(":");
            x.setAttribute(attribute, value(key));
        }
        slider.value = frame;
        place.textContent = `${scene.unit} ${scene.names[frame]}`;
        slider.setAttribute("aria-valuetext", place.textContent);
        cursor?.setAttribute("x", frame);
        if (scene.bars)
            count.textContent = `${scene.bars.title}: ${scene.bars.values[frame]} of ${scene.bars.most}`;
        caption.textContent = scene.captions.filter(([first]) => first <= frame).at(-1)[1];
        if (moves && !still) {  /* two names of one animation: a change of name starts it again */
            const odd = panels.classList.toggle("tick-a");
            panels.classList.toggle("tick-b", !odd);
        } else panels.classList.remove("tick-a", "tick-b");
        explain();
        if (timer && frame == scene.names.length - 1) play(false);
    }
    function explain() {
        const about = asked ?? pinned;
        details.hidden = !bound("data-d").length;
        details.classList.toggle("empty", !about);
        if (!about) {
            details.textContent = "Point at a box, or select it, to see its numbers.";
            return;
        }
        const sentences = about.dataset.d.split("|");
        const sentence = sentences[about.dataset.k ? value(about.dataset.k) : 0];
        details.textContent = sentence.replace(/\{([^}]+)\}/g, (_, key) => value(key) === "" ? "empty" : value(key));
    }
    function pin(element) {
        pinned?.classList.remove("pinned");
        pinned = element == pinned ? null : element;
        pinned?.classList.add("pinned");
        explain();
    }

    /* ---- Controls. */
    function play(on = !timer) {
        clearInterval(timer);
        timer = null;
        if (on) {
            if (frame == scene.names.length - 1) show(0);
            timer = setInterval(() => show(frame + 1, true), 1000 / speed.value);
        }
        button.textContent = on ? "❚❚" : "▶";
        button.setAttribute("aria-label", on ? "pause" : "play");
    }
    function go(next, moves = false) {
        play(false);
        show(next, moves);
    }
    const control = (label, text, act) =>
        make("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
    const button = control("play", "▶", () => play());
    const slider = make("input", { type: "range", min: 0, step: 1, "aria-label": "position",
        oninput: () => go(+slider.value) });
    const place = make("output", { class: "place" });
    const speed = make("select", { "aria-label": "speed", title: "speed", onchange: () => timer && play(true) });
    for (const [rate, text] of [[0.5, "½"], [1, "1"], [2, "2"], [4, "4"], [8, "8"]])
        speed.append(make("option", { value: rate }, `${text}/s`));
    speed.value = 2;
    const choice = make("select", { "aria-label": "example", onchange: () => choose(+choice.value) });
    scenes.forEach((x, index) => choice.append(make("option", { value: index }, x.label)));

    const panels = make("div", { class: "panels" });
    const bars = make("div", { class: "bars" });
    const caption = make("p", { class: "caption", "aria-live": "polite" });
    const details = make("p", { class: "details", "aria-live": "polite" });
    const count = make("span");
    let cursor = null;
    function drawBars() {
        bars.replaceChildren();
        cursor = null;
        if (!scene.bars) return;
        const { values, most } = scene.bars;
        const box = (x, height, kind) =>
            `<rect x="${x}" y="${most - height}" width="1" height="${height}" class="${kind}"/>`;
        bars.innerHTML = `<svg viewBox="0 0 ${values.length} ${most}" preserveAspectRatio="none" aria-hidden="true">`
            + values.map((x, index) => box(index, x, "bar")).join("") + box(0, most, "cursor") + "</svg>";
        bars.prepend(count);
        cursor = bars.querySelector(".cursor");
        const svg = bars.querySelector("svg");
        const jump = event => {
            const { left, width } = svg.getBoundingClientRect();
            go(Math.floor((event.clientX - left) / width * values.length));
        };
        svg.addEventListener("pointerdown", jump);
        svg.addEventListener("pointermove", event => event.buttons && jump(event));
    }
    function choose(index) {
        play(false);
        scene = scenes[index];
        asked = pinned = null;
        panels.innerHTML = scene.panels.map(index => drawings[index]).map(
            x => `<div style="--natural:${x.match(/viewBox="0 0 (\d+)/)[1]}">${x}</div>`).join("");
        slider.max = scene.names.length - 1;
        for (const x of bound("data-d")) {
            x.setAttribute("tabindex", 0);
            x.addEventListener("pointerenter", () => { asked = x; explain(); });
            x.addEventListener("pointerleave", () => { asked = null; explain(); });
            x.addEventListener("focus", () => { asked = x; explain(); });
            x.addEventListener("blur", () => { asked = null; explain(); });
            x.addEventListener("click", () => pin(x));
        }
        drawBars();
        show(0);
    }
    const keys = {
        ArrowRight: () => go(frame + 1, true), ArrowLeft: () => go(frame - 1),
        Home: () => go(0), End: () => go(scene.names.length - 1), " ": () => play(),
        Enter: () => document.activeElement.dataset?.d && pin(document.activeElement),
    };
    document.addEventListener("keydown", event => {
        const arrow = event.key == "ArrowLeft" || event.key == "ArrowRight";
        if (!(event.key in keys) || event.ctrlKey || event.altKey || event.metaKey) return;
        if (event.target.closest("select, textarea, input:not([type=range])")) return;
        if (!arrow && (!root.contains(event.target) || event.target.closest("button"))) return;
        event.preventDefault();
        keys[event.key]();
    });
    root.replaceChildren(
        ...(scenes.length > 1 ? [make("label", { class: "choice" }, "Example: ", choice)] : []),
        panels,
        make("div", { class: "below" },  /* stays in sight while the panels scroll */
            caption, details, bars,
            make("div", { class: "controls" },
                control("to the start", "❘◀◀", () => go(0)),
                control("step back", "◀❘", () => go(frame - 1)),
                button,
                control("step", "❘▶", () => go(frame + 1, true)),
                slider, place, speed)));
    root.classList.add("ready");
    choose(0);
}
