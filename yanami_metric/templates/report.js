"use strict";
// The browser of dialogues. All text is a stranger's: nodes are made one by one and filled by textContent, never from
// markup (the page's policy forbids that besides). Data stands in blocks of JSON, one a dialogue, parsed when opened.
(() => {
const $ = (id) => document.getElementById(id);
const read = (id) => JSON.parse($(id).textContent);
const page = read("y-page");
const index = read("y-index");
const CHUNK = 200; // rows of the list at a time: thousands at once would be slow
const SCORES = ["VR", "SC", "VQ", "DSU"];
const SIGNS = { yes: ["✓", "passed"], no: ["✗", "failed"], open: ["?", "not scored"] };
const words = (name) => String(name).replaceAll("_", " ");
const state = { matches: [], shown: 0, current: -1, block: null, turn: -1 };

function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}
const text = (tag, value, attributes) => el(tag, { dir: "auto", ...attributes }, value);
const code = (value) => el("code", null, el("bdi", null, value));
const number = (value) => (value === null || value === undefined ? page.dash : value.toFixed(1));

// The list and its filters

function fill(select, values, named = words) {
  for (const value of values) select.append(el("option", { value }, named(value)));
}

function prepare() {
  const seen = (key) => [...new Set(index.flatMap((one) => one[key]))].sort();
  const scenarios = new Set(index.map((one) => one.scenario));
  fill($("y-scenario"), page.scenarios.filter((name) => scenarios.has(name)));
  fill($("y-capability"), seen("capabilities"));
  fill($("y-status"), seen("statuses"));
  SCORES.forEach((score, place) => page.histories.forEach((history) => {
    if (index.some((one) => known(one, history, place) !== null)) {
      $("y-score").append(el("option", { value: `${place} ${history}` }, `${score}, ${history}`));
    }
  }));
}

function known(entry, history, place) {
  const scores = entry.scores[history];
  return scores && typeof scores[place] === "number" ? scores[place] : null;
}

function filter() {
  const wanted = $("y-search").value.trim().toLowerCase();
  const [scenario, capability, status] = ["y-scenario", "y-capability", "y-status"].map((id) => $(id).value);
  const low = parseFloat($("y-low").value), high = parseFloat($("y-high").value);
  const [place, history] = [Number($("y-score").value.split(" ")[0]), $("y-score").value.slice(2)];
  const ranged = $("y-score").value && !(Number.isNaN(low) && Number.isNaN(high));
  const inside = (entry) => {
    const value = known(entry, history, place);
    return value !== null && !(value < low) && !(value > high);
  };
  state.matches = [];
  index.forEach((entry, at) => {
    if (scenario && entry.scenario !== scenario) return;
    if (capability && !entry.capabilities.includes(capability)) return;
    if (status && !entry.statuses.includes(status)) return;
    if (wanted && !entry.id.toLowerCase().includes(wanted)) return;
    if (!ranged || inside(entry)) state.matches.push(at);
  });
  $("y-count").textContent = `${state.matches.length} of ${index.length} dialogues`;
  $("y-list").replaceChildren();
  state.shown = 0;
  more();
  mark();
}

function more() {
  const next = state.matches.slice(state.shown, state.shown + CHUNK);
  $("y-list").append(...next.map(row));
  state.shown += next.length;
  $("y-more").hidden = state.shown >= state.matches.length;
}

function row(at) {
  const entry = index[at];
  const scores = page.histories.map((history) => {
    const place = known(entry, history, 0) === null && known(entry, history, 3) !== null ? 3 : 0;
    return el("span", { title: `${SCORES[place]} of ${history}` }, `${history} `, el("b", null, number(known(entry, history, place))));
  });
  const link = el("a", { href: address(at) }, el("bdi", { class: "id" }, entry.id),
    el("span", { class: "about" }, el("span", { class: "tag" }, words(entry.scenario)), ...scores));
  return el("li", { "data-at": at }, link);
}

function mark() {
  for (const one of $("y-list").querySelectorAll("a[aria-current]")) one.removeAttribute("aria-current");
  const link = $("y-list").querySelector(`li[data-at="${state.current}"] a`);
  if (link) {
    link.setAttribute("aria-current", "true");
    const list = $("y-list"), above = link.offsetTop - list.offsetTop;
    if (above < list.scrollTop || above > list.scrollTop + list.clientHeight - 60) list.scrollTop = above - 60;
  }
  const place = state.matches.indexOf(state.current);
  $("y-place").textContent = place < 0 ? `${state.matches.length} to choose from` : `${place + 1} of ${state.matches.length}`;
  $("y-previous").disabled = place <= 0;
  $("y-next").disabled = place + 1 >= state.matches.length;
}

// Stepping: the address says which dialogue is open, so the browser's own "back" and links work

const address = (at) => `#${encodeURIComponent(index[at].id)}`;

function addressed() {
  try {
    const id = decodeURIComponent(location.hash.slice(1));
    return index.findIndex((one) => one.id === id);
  } catch {
    return -1; // not something that this page wrote
  }
}

function step(by) {
  const place = state.matches.indexOf(state.current);
  const next = place < 0 ? 0 : place + by;
  if (next < 0 || next >= state.matches.length) return;
  while (next >= state.shown) more();
  location.hash = address(state.matches[next]);
  open(state.matches[next], true); // at once: the event of the new address comes after the next key
}

function stepTurn(by) {
  const turns = $("y-dialogue").querySelectorAll(".turn");
  if (!turns.length) return;
  state.turn = Math.min(turns.length - 1, Math.max(0, state.turn + by));
  turns[state.turn].focus({ preventScroll: true });
  turns[state.turn].scrollIntoView({ block: "start" });
}

function open(at, focused) {
  state.current = at;
  state.turn = -1;
  state.block = read(`y-d${at}`);
  show(index[at], state.block);
  mark();
  if (focused) {
    $("y-title").focus({ preventScroll: true });
    $("y-view").scrollIntoView({ block: "start" });
  }
}

// One dialogue

function show(entry, block) {
  const title = el("h3", { id: "y-title", tabindex: -1 }, el("bdi", null, entry.id));
  const told = [el("span", { class: "tag" }, words(entry.scenario))];
  for (const name of block.histories) {
    const scores = SCORES.flatMap((score, place) => (known(entry, name, place) === null ? [] : [score, el("b", null, number(known(entry, name, place)))]));
    told.push(el("span", { class: "outcome" }, code(name), ...scores.flatMap((one) => [" ", one]), scores.length ? "" : " no score"));
  }
  const turns = block.turns.map((turn, at) => showTurn(block, turn, at));
  $("y-dialogue").replaceChildren(el("header", { class: "heading" }, title, el("p", { class: "outcomes" }, ...told)), ...turns);
}

function showTurn(block, turn, at) {
  const name = `turn ${at + 1}`;
  const parts = turn.user.map((part) => showPart(block, part, name));
  const tags = turn.capabilities.map((one) => el("span", { class: "tag" }, words(one)));
  const user = el("div", { class: "user" }, el("p", { class: "speaker" }, "User"), ...parts);
  const said = turn.assistant ? [el("p", { class: "speaker" }, "Assistant, text as in the data"), text("p", turn.assistant, { class: "said" })] : [];
  const slots = turn.slots.map((slot) => showSlot(block, slot, at, turn.slots.length));
  const questions = turn.questions.map((question) => showQuestion(block, question, at));
  return el("article", { class: "turn", tabindex: -1, "aria-label": name },
    el("h4", null, `Turn ${at + 1} of ${block.turns.length}`, ...tags),
    user, el("div", { class: "assistant" }, ...said, ...slots, ...questions));
}

function showPart(block, part, where) {
  if (part.image === undefined) return text("p", part.text);
  const label = part.role === "reference" ? `reference image in the user's message of ${where}` : `${part.role} of turn ${part.from}, shown by the user in ${where}`;
  return picture(block, part.image, label, part.role);
}

function picture(block, at, label, caption) {
  const image = block.images[at];
  if (!image.thumb) {
    return el("figure", null, el("div", { class: "absent" }, "can't be shown", text("small", image.why)), el("figcaption", null, caption));
  }
  const size = `${image.width} × ${image.height} pixels`;
  const small = el("img", { src: image.thumb, alt: label, width: image.width, height: image.height });
  const button = el("button", { type: "button", class: "zoom", title: `${label}, ${size}`, onclick: () => enlarge(image, label, size) }, small);
  return el("figure", null, button, el("figcaption", null, caption));
}

function showSlot(block, slot, turn, several) {
  const where = `turn ${turn + 1}${several > 1 ? `, image ${slot.ordinal + 1}` : ""}`;
  const shown = slot.outputs.map((output) => showOutput(block, output, where));
  if (slot.truth) shown.unshift(el("div", { class: "output truth" }, picture(block, slot.truth.image, `${slot.truth.role} of ${where}`, slot.truth.role)));
  else shown.unshift(el("div", { class: "output truth" }, el("figure", null, el("div", { class: "absent" }, "no target in the data"), el("figcaption", null, "target"))));
  const reasons = slot.outputs.filter((one) => one.quality.status !== "not_judged");
  return el("section", { class: "slot" },
    several > 1 ? el("p", { class: "speaker" }, `Image ${slot.ordinal + 1}`) : null,
    el("div", { class: "outputs" }, ...shown),
    slot.checks.length ? showChecks(block, slot) : null,
    reasons.length ? el("details", { class: "calls" }, el("summary", null, "Quality: the judge's reasons"),
      el("ul", null, ...reasons.map((one) => el("li", null, code(one.history), ` ${quality(one.quality)} `, because(one.quality))))) : null,
    showCalls(block, (call) => call.turn === turn && call.slot === slot.ordinal && call.question === null));
}

const quality = (mark) => (mark.value === null ? `quality ${words(mark.status)}` : `quality ${mark.value.toFixed(1)}`);

function showOutput(block, output, where) {
  const figure = output.image === null
    ? el("figure", null, el("div", { class: "absent" }, words(output.status), text("small", output.reason)), el("figcaption", null, code(output.history)))
    : picture(block, output.image, `output of ${output.history}, ${where}, ${quality(output.quality)}`, code(output.history));
  return el("div", { class: "output" }, figure, el("span", { class: `quality ${output.quality.tone}` }, quality(output.quality)));
}

function sign(mark, history, said) {
  const [symbol, meaning] = SIGNS[mark.tone];
  const told = said || (mark.status === "scored" ? meaning : words(mark.status));
  return el("span", { class: `mark ${mark.tone}`, title: `${history}: ${told}` }, el("span", { "aria-hidden": true }, symbol), el("span", { class: "spoken" }, `${history}: ${told}`));
}

function because(mark) {
  const status = mark.status === "scored" ? "" : words(mark.status);
  return el("span", null, status ? el("b", null, status) : "", status && mark.reason ? ": " : "", text("bdi", mark.reason));
}

function showChecks(block, slot) {
  const head = el("div", { class: "line head", "aria-hidden": true }, el("span", null, "Check"), ...block.histories.map((name) => code(name)));
  const box = el("div", { class: "checks" }, head, ...slot.checks.map((check) => showCheck(block, check)));
  box.style.setProperty("--columns", block.histories.length);
  return box;
}

function showCheck(block, check) {
  const tag = check.capability ? el("small", { class: "tag" }, `${words(check.capability)}, not in SC`) : null;
  const summary = el("summary", { class: "line" }, el("span", null, text("bdi", check.criterion), " ", tag),
    ...check.marks.map((mark, at) => el("span", null, sign(mark, block.histories[at]))));
  const reasons = check.marks.map((mark, at) => el("li", null, sign(mark, block.histories[at]), " ", code(block.histories[at]), " ", because(mark)));
  return el("details", null, summary, el("ul", null, ...reasons));
}

function showQuestion(block, question, turn) {
  const answers = question.answers.map((answer, at) => {
    const mark = question.marks[at], name = block.histories[at];
    const said = mark.status === "scored" ? { yes: "right", no: "wrong" }[mark.tone] : "";
    const given = answer.text === null ? el("span", null, el("em", null, words(answer.status)), " ", text("bdi", answer.reason)) : text("span", answer.text, { class: "said" });
    return el("li", null, sign(mark, name, said), " ", code(name), " ", given, mark.reason || mark.status !== "scored" ? el("small", { class: "because" }, because(mark)) : null);
  });
  const images = question.images.map((part) => showPart(block, part, `the question after turn ${turn + 1}`));
  return el("section", { class: "question" },
    el("p", null, el("small", { class: "tag" }, words(question.dimension)), " ", text("bdi", question.question)),
    images.length ? el("div", { class: "outputs" }, ...images) : null,
    question.choices.length ? el("p", { class: "meta" }, "Choices: ", text("bdi", question.choices.join(" · "))) : null,
    el("p", { class: "meta" }, "Reference answer: ", text("b", question.reference)),
    el("ul", null, ...answers),
    showCalls(block, (call) => call.question === question.id));
}

// What the judge was asked and said, made when unfolded: that is much text, and seldom wanted

function showCalls(block, about) {
  const calls = block.calls.filter(about);
  if (!calls.length) return null;
  const details = el("details", { class: "calls" }, el("summary", null, `Prompts and raw replies of the judge (${calls.length})`));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(...calls.map((call) => showCall(block, call)));
  });
  return details;
}

function showCall(block, call) {
  const sample = call.sample > 1 ? `, sample ${call.sample}` : "";
  const head = el("p", { class: "meta" }, code(call.history), ` ${call.kind}${sample}, judge `, code(call.judge), ", asked: ",
    el("bdi", null, call.items.join(", ")), call.fingerprint ? ` (call ${call.fingerprint})` : "");
  const rubric = page.rubrics[call.kind];
  const prompt = call.prompt === null
    ? [el("p", { class: "meta" }, "No prompt: the judge reads none, it looks at the item itself.")]
    : [fold("Prompt", ...(rubric ? [el("p", { class: "meta" }, "System message"), text("pre", rubric)] : []),
        el("p", { class: "meta" }, "What is judged"), text("pre", block.texts[call.prompt]))];
  const replies = call.raw.length ? call.raw.map((at) => text("pre", block.texts[at])) : [el("p", { class: "meta" }, "No reply.")];
  const notes = call.notes.map((note) => text("p", note, { class: "meta" }));
  return el("div", { class: "call" }, head, ...prompt, ...replies, ...notes);
}

const fold = (title, ...inside) => el("details", null, el("summary", null, title), ...inside);

// The image in full

function enlarge(image, label, size) {
  const large = $("y-image");
  large.onerror = () => {
    large.onerror = null;
    large.src = image.thumb;
    $("y-note").textContent = "The original isn't beside this page: this is the small copy.";
  };
  $("y-note").textContent = image.file ? "" : "This page has the small copy only.";
  large.src = image.file || image.thumb;
  large.alt = label;
  $("y-caption").textContent = `${label}, ${size}`;
  $("y-large").showModal();
}

// Keys and buttons

const KEYS = {
  j: () => step(1), ArrowRight: () => step(1), k: () => step(-1), ArrowLeft: () => step(-1),
  n: () => stepTurn(1), p: () => stepTurn(-1),
  "/": () => $("y-search").focus(), "?": () => $("y-help").showModal(),
};

function pressed(event) {
  const typing = event.target.closest("input, select, textarea");
  if (typing && event.key === "Escape") typing.blur();
  if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.key.startsWith("Arrow") && event.target.closest(".plot, .scroll")) return; // those scroll by arrows
  const act = KEYS[event.key];
  if (act) {
    event.preventDefault();
    act();
  }
}

function listen() {
  for (const id of ["y-search", "y-scenario", "y-capability", "y-status", "y-score", "y-low", "y-high"]) {
    $(id).addEventListener("input", filter);
  }
  $("y-filters").addEventListener("submit", (event) => event.preventDefault());
  $("y-filters").addEventListener("reset", () => setTimeout(filter)); // the fields change after this event
  const buttons = { previous: () => step(-1), next: () => step(1), "turn-back": () => stepTurn(-1), "turn-on": () => stepTurn(1), keys: KEYS["?"], more };
  for (const [name, act] of Object.entries(buttons)) $(`y-${name}`).addEventListener("click", act);
  for (const dialog of [$("y-large"), $("y-help")]) {
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog || event.target.closest(".close")) dialog.close();
    });
  }
  document.addEventListener("keydown", pressed);
  addEventListener("hashchange", () => {
    const at = addressed();
    if (at >= 0 && at !== state.current) open(at, true);
  });
}

$("y-browser").hidden = false;
if (index.length) {
  prepare();
  listen();
  filter();
  const linked = addressed();
  open(linked < 0 ? 0 : linked, linked >= 0);
} else {
  $("y-browser").replaceChildren(el("p", { class: "meta" }, "No dialogue is shown in this report."));
}
})();
