// Names of classes for data without any label. When the network is trained, the labeling page is at this very address.
"use strict";

const $ = (id) => document.getElementById(id);
const names = () => [...$("names").children].map((input) => input.value.trim()).filter((name) => name);

// There is always one empty line at the end.
function drawLines() {
  const lines = [...$("names").children];
  if (lines.length < 2 || lines.at(-1).value.trim()) {
    const input = Object.assign(document.createElement("input"), { maxLength: 100, ariaLabel: "name of a class" });
    input.placeholder = `class ${lines.length + 1}`;
    input.addEventListener("input", drawLines);
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      if (input.value.trim() && input.nextElementSibling) input.nextElementSibling.focus();
      else if (!$("train").disabled) train();
    });
    $("names").append(input);
    if (lines.length === 0) { input.focus(); drawLines(); }
  }
  $("train").disabled = new Set(names()).size < 2;
}

async function train() {
  $("train").disabled = true;
  try {
    const response = await fetch("api/classes", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ names: names() }),
    });
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.error);
    follow(answer);
  } catch (error) {
    $("hint").className = "hint error";
    $("hint").textContent = error.message;
    $("train").disabled = false;
  }
}

function follow(state) {
  $("about").textContent = state.data;
  $("question").hidden = !!state.named;
  $("training").hidden = !state.named;
  if (!state.named) return;
  $("heading").textContent = "The network learns from your data";
  document.title = `${$("heading").textContent} · NeSi`;
  $("named").textContent = `Classes: ${state.named.join(", ")}.`;
  setTimeout(wait, 1000);
}

let silent = 0;  // seconds without an answer: there is a moment without one between the two pages

async function wait() {
  try {
    const state = await (await fetch("api/state")).json();
    if (state.classes) return location.reload();
    silent = 0;
  } catch {
    silent += 1;
  }
  if (silent < 10) return setTimeout(wait, 1000);
  $("heading").textContent = "The program on the terminal has ended";
  $("named").textContent = "It says there why. Start it again and open its new address.";
}

drawLines();
$("train").addEventListener("click", train);
fetch("api/state").then((response) => response.json()).then(follow);
