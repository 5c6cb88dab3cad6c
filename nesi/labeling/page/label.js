// The page keeps no answers: every click goes to the server, which writes it to disk and says how things stand now.
"use strict";

const $ = (id) => document.getElementById(id);
let state = null;      // as the server last told it
let shown = null;      // the field in the frame: the question, or an earlier one that is looked at again
let mixture = null;    // weights of the classes while the person is unsure
let waiting = false;   // for the server: keys pressed meanwhile are not answers
let asksForMore = false;
let revisits = false;  // an earlier answer is looked at again
let poll = null;

async function request(path, content) {
  const options = content === undefined ? {} : {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(content),
  };
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error("The program on the terminal has ended. Every answer is saved: start it again and open its new address.");
  }
  const isJson = (response.headers.get("content-type") || "").startsWith("application/json");
  const answer = isJson ? await response.json() : { error: await response.text() };
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

async function act(path, content) {
  if (waiting) return;
  waiting = true;
  try {
    state = await request(path, content);
    shown = state.current;
    mixture = null;
    revisits = false;
    draw();
  } catch (error) {
    complain(error.message);
  } finally {
    waiting = false;
  }
}

const isOpen = () => !$("question").hidden;

function answer(weights) {
  if (isOpen() && shown) act("api/answer", { field: shown.field, weights });
}

function choose(number) {
  if (!isOpen() || !shown || number >= state.classes.length) return;
  if (!mixture) return answer(state.classes.map((_, other) => (other === number ? 1 : 0)));
  mixture[number] += 1;
  drawClasses();
  drawHint();
}

function unsure() {
  if (!isOpen() || !shown) return;
  mixture = mixture ? null : state.classes.map(() => 0);
  drawClasses();
  drawHint();
}

function agree() {
  if (!isOpen() || !shown) return;
  if (mixture) {
    if (mixture.some((weight) => weight > 0)) answer(mixture);
    return;
  }
  const best = strongest(shown.beliefs);
  if (best !== null) choose(best);
}

async function revisit(field) {
  if (waiting) return;
  try {
    shown = await request(`api/field/${field}`);
    mixture = null;
    revisits = true;
    draw();
  } catch (error) {
    complain(error.message);
  }
}

function back() {
  if (!mixture) {
    shown = state.current;
    revisits = false;
  }
  mixture = null;
  draw();
}

const QUESTIONS = {
  images: "What does this field show?", texts: "What are these texts about?", values: "Which class are these points?",
};

// The class that stands out among the beliefs, or null: agreeing must mean something.
function strongest(beliefs) {
  const order = beliefs.map((_, number) => number).sort((a, b) => beliefs[b] - beliefs[a]);
  const lead = beliefs[order[0]] - (order.length > 1 ? beliefs[order[1]] : 0);
  return lead >= 0.1 ? order[0] : null;
}

const percent = (share) => `${Math.round(100 * share)} %`;
const number = (value) => value.toLocaleString("en").replaceAll(",", "\u2009");

function describe(weights) {
  if (!weights) return "–";
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const given = weights.map((weight, k) => [weight / total, k]).filter(([share]) => share > 0).sort((a, b) => b[0] - a[0]);
  if (given.length === 1) return state.classes[given[0][1]].name;
  return given.slice(0, 3).map(([share, k]) => `${state.classes[k].name} ${Math.round(100 * share)}`).join(" ");
}

// ---- drawing -----------------------------------------------------------------------------------------------------

function draw() {
  const training = state.training;
  const running = training.status === "running";
  const full = state.asked >= state.target || !state.current;
  const showsResult = !running && training.status === "done" && training.current && !asksForMore && !revisits;
  const rests = !running && !showsResult && ((full && !asksForMore && !revisits) || !shown);
  $("heading").textContent = running ? "Training goes on with your labels"
    : showsResult ? "The result with your labels" : rests ? restTitle()
      : revisits ? "Change your answer?" : QUESTIONS[state.kind];
  document.title = `${$("heading").textContent} · NeSi`;
  $("about").textContent = `${state.dataset} · ${state.run} · ${number(state.n_fields)} fields, ${number(state.n_train)} training points`;
  $("labeled").textContent = `${state.labeled} of ${state.target}`;
  fill("labeled-bar", state.labeled / state.target);
  $("decided").textContent = percent(state.decided);
  fill("decided-bar", state.decided);
  $("train").disabled = running || state.labeled === 0;
  $("training").hidden = !running;
  $("result").hidden = !showsResult;
  $("rest").hidden = !rests;
  $("question").hidden = running || showsResult || rests;
  if (running) drawTraining(training);
  if (showsResult) drawResult(training);
  if (rests) drawRest();
  if (isOpen()) drawField();
  drawHistory();
  drawHint();
  if (training.status === "failed") complain(training.sentence);
  clearTimeout(poll);
  if (running) poll = setTimeout(refresh, 400);
}

function drawField() {
  const images = state.kind === "images", unused = shown.wins === 0;
  $("picture").hidden = !images || unused;
  $("words").hidden = images || unused;
  $("unused").hidden = !unused;
  $("documents").hidden = state.kind !== "texts" || unused;
  if (images) $("picture").src = `field/${shown.field}.png`;
  else $("words").replaceChildren(...shown.words.map(({ word, strength }) => {
    const item = document.createElement("li");
    item.append(bar(strength), text("span", word));
    return item;
  }));
  $("wins").textContent = `Stands for ${number(shown.wins)} point${shown.wins === 1 ? "" : "s"}`;
  $("gain").textContent = shown.answer || shown.gain < 1 ? "\u00a0" : `answer helps ~${number(shown.gain)}`;
  $("examples").hidden = state.kind === "texts" || unused;
  if (images) {
    $("examples").replaceChildren(...shown.examples.map((point) =>
      Object.assign(new Image(), { src: `point/${point}.png`, alt: "a training point" })));
  } else if (state.kind === "values") {
    $("examples").replaceChildren(...shown.rows.map((row) => text("p", row.map(({ word }) => word).join(" "))));
  } else {
    const words = new Set(shown.words.map(({ word }) => word));
    $("documents").replaceChildren(...shown.documents.map((example) => drawDocument(example, words)));
  }
  drawClasses();
}

// The text of the person's own file, with the words of the field marked; only ever inserted as text.
function drawDocument(example, words) {
  const article = document.createElement("article");
  article.tabIndex = 0;
  const body = text("div", "", example.whole ? "written" : "counted");
  body.append(...example.text.split(/([\p{L}\p{N}_]+)/u).filter((part) => part).map((part) =>
    words.has(part.toLowerCase()) ? text("mark", part) : part));
  article.append(text("h3", example.name), body);
  return article;
}

function drawClasses() {
  const box = $("classes");
  const longest = Math.max(...state.classes.map(({ name }) => name.length));
  box.className = "classes" + (longest > 4 ? " named" : state.classes.length > 15 ? " many" : "");
  const total = mixture ? mixture.reduce((sum, weight) => sum + weight, 0) : 0;
  const shares = mixture ? mixture.map((weight) => (total ? weight / total : 0)) : shown.answer || shown.beliefs;
  if (box.childElementCount !== state.classes.length) {
    box.replaceChildren(...state.classes.map(({ name, key }, k) => {
      const button = text("button", "");
      button.type = "button";
      button.className = "class";
      button.append(bar(0), text("span", name, "name"), text("span", "", "share"));
      if (key && key !== name) button.append(text("kbd", key));
      button.addEventListener("click", () => choose(k));
      return button;
    }));
  }
  const best = strongest(shown.beliefs);
  const guessed = !mixture && !shown.answer;
  const least = Math.min(...shares);  // what not knowing gives to every class alike: it tells nothing, and is not shown
  [...box.children].forEach((button, k) => {
    const tells = guessed ? best !== null && shares[k] - least >= 0.05 : shares[k] >= 0.005;
    button.querySelector("progress").value = tells ? shares[k] : 0;
    button.querySelector(".share").textContent = tells ? percent(shares[k]) : "";
    button.classList.toggle("chosen", mixture ? mixture[k] > 0 : !!shown.answer && shown.answer[k] > 0);
  });
  $("belief").replaceChildren(...(shown.answer
    ? ["You said ", text("b", describe(shown.answer)), ". A new answer replaces it, Esc leaves it."]
    : best === null ? ["The network has no idea yet."]
      : ["The network believes: ", text("b", state.classes[best].name), ` (${percent(shown.beliefs[best])})`]));
  $("agree").disabled = mixture ? total === 0 : best === null;
  $("agree-text").textContent = mixture ? "Save this mixture" : best === null ? "Agree" : `Agree: ${state.classes[best].name}`;
  $("unsure").classList.toggle("primary", !!mixture);
}

function drawHint() {
  $("undo").disabled = state.history.length === 0;
  const keys = state.classes.every(({ key, name }) => key === name) ? "the class itself" : "the small keys";
  $("hint").className = "hint";
  $("hint").textContent = mixture
    ? "Unsure: press every class that it could be, the likelier ones more often, then Enter. Esc: back."
    : `Click a class or type ${keys}. Every answer is saved at once.`;
}

function drawRest() {
  $("rest-text").textContent = `The ${state.labeled} labels reach about ${percent(state.decided)} of the training data. ` +
    (state.self_labeling ? "Training lets the network find the classes of all other fields from here."
      : "This network does not label itself: the classes are set and tested.");
  $("rest-more").hidden = !state.current;
  $("rest-train").disabled = state.labeled === 0;
}

function restTitle() {
  return state.current ? `${state.asked} fields are done` : "There is no field left to ask about";
}

function drawTraining(training) {
  fill("training-bar", training.iterations ? training.iteration / training.iterations : 0);
  $("training-text").textContent = training.iterations
    ? `Iteration ${training.iteration} of ${training.iterations}; the network labels ${percent(training.self_labeled)} of the points itself.`
    : "Setting the classes …";
}

function drawResult(result) {
  const error = (value) => (value === null ? "–" : `${value.toFixed(2)} % test error`);
  $("before").textContent = result.test_error_before === null ? "no classes" : error(result.test_error_before);
  $("at-once").textContent = error(result.test_error_with_labels);
  $("after").textContent = error(result.test_error_after);
  $("errors").hidden = result.n_test === 0;
  $("result-text").textContent = `${result.answers} labeled fields, ${result.iterations} iterations` +
    (result.n_test ? `, ${number(result.n_test)} test points. ` : "; there are no labeled points to test on. ") +
    (result.predictions ? `The classes of all unlabeled points are in ${result.predictions}; weights` : "Weights") +
    ", picture and numbers are in the run's folder.";
  $("result-picture").src = `result.png?${result.answers_sha256.slice(0, 12)}-${result.iterations}`;
}

function drawHistory() {
  $("history-title").textContent = state.history.length ? "Your answers, latest first: click to change one" : "\u00a0";
  $("history").replaceChildren(...state.history.slice(0, 120).map(({ field, answer: given }) => {
    const button = text("button", "");
    button.type = "button";
    button.title = `field ${field}`;
    button.classList.toggle("open", isOpen() && !!shown && shown.field === field);
    button.classList.toggle("word", state.kind !== "images");
    if (state.kind === "images") button.append(Object.assign(new Image(), { src: `field/${field}.png`, alt: `field ${field}` }));
    button.append(text("span", describe(given)));
    button.addEventListener("click", () => revisit(field));
    return button;
  }));
}

function text(tag, content, kind) {
  const element = document.createElement(tag);
  element.textContent = content;
  if (kind) element.className = kind;
  return element;
}

function fill(id, share) {
  $(id).style.width = `${100 * Math.min(1, share)}%`;
}

function bar(value) {
  return Object.assign(document.createElement("progress"), { max: 1, value, ariaHidden: "true" });
}

function complain(sentence) {
  $("hint").className = "hint error";
  $("hint").textContent = sentence;
  if ($("question").hidden) $("about").textContent = sentence;
}

// ---- start -------------------------------------------------------------------------------------------------------

async function refresh() {
  try {
    state = await request("api/state");
    shown = state.current;
    draw();
  } catch (error) {
    complain(error.message);
  }
}

function train() {
  asksForMore = false;
  act("api/train", {});
}

function more() {
  asksForMore = true;
  revisits = false;
  shown = state.current;
  draw();
}

document.addEventListener("keydown", (event) => {
  if (!state || event.ctrlKey || event.metaKey || event.altKey) {
    if (event.key === "z" && event.ctrlKey && state) { event.preventDefault(); act("api/undo", {}); }
    return;
  }
  if (event.key === "Tab" || event.key === "Shift" || !isOpen()) return;
  // Outside of the question, Enter and Space press the button that has the focus.
  if ((event.key === "Enter" || event.key === " ") && event.target.closest("#train, #history button")) return;
  const number = state.classes.findIndex(({ key }) => key === event.key);
  const actions = { " ": () => answer(null), Enter: agree, Backspace: () => act("api/undo", {}), ".": unsure, Escape: back };
  // A button that has the focus would be clicked a second time by Enter and Space.
  if (number >= 0) { event.preventDefault(); if (!event.repeat) choose(number); }
  else if (actions[event.key]) { event.preventDefault(); if (!event.repeat) actions[event.key](); }
});

$("agree").addEventListener("click", agree);
$("unsure").addEventListener("click", unsure);
$("skip").addEventListener("click", () => answer(null));
$("undo").addEventListener("click", () => act("api/undo", {}));
for (const id of ["train", "rest-train"]) $(id).addEventListener("click", train);
for (const id of ["more", "rest-more"]) $(id).addEventListener("click", more);
$("stop").addEventListener("click", () => act("api/stop", {}));
refresh();
