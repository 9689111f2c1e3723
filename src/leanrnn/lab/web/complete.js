// The page: what is typed, what is suggested, and how the two models compare. models.js stands before this.

const TURNS = 24; // of each model after every change of the text
const WARM_UP = 4; // turns before the first: browsers compile a second time, better, what runs often
const QUIET = 800; // milliseconds without typing after which a screen reader is told

const box = at("text");
let models = null;
let suggested = "";
let last = ""; // the text as it was
let version = 0; // of the text; work for an older one is given up
let working = Promise.resolve();
let quiet = 0;

/** Show the text with words behind it in grey, and tell those who cannot see it after a while. */
function suggest(line) {
  suggested = line;
  at("typed").textContent = box.value;
  at("suggestion").textContent = line || "\u200b"; // gives a last, empty line its height
  at("take").disabled = !line;
  clearTimeout(quiet);
  quiet = setTimeout(() => { at("told").textContent = line && `Suggested: ${line.trim()}`; }, QUIET);
}

function changed() {
  version += 1;
  const mine = version;
  const typed = box.value.slice(last.length);
  const agrees = box.value.startsWith(last) && suggested.startsWith(typed);
  last = box.value;
  suggest(agrees ? suggested.slice(typed.length) : ""); // whoever types what is suggested sees it stay
  if (models) working = working.then(() => follow(mine)).catch(failed);
}

/** Complete the text with both models, then time them, unless it has changed meanwhile. */
async function follow(mine) {
  await pause();
  if (mine !== version) return;
  const text = box.value;
  let heard = [];
  for (const name of ["lean", "dense"]) {
    const found = await models[name].complete(text);
    await pause();
    if (mine !== version) return;
    at(`${name}-words`).textContent = (found.begun + found.line).trim();
    if (name === "lean") {
      heard = found.heard;
      suggest(found.line);
    }
  }
  for (let i = 0; i < TURNS && heard.length; i += 1) {
    for (const name of ["dense", "lean"]) {
      await models[name].turn(heard);
      await pause();
      if (mine !== version) return;
    }
    times();
  }
}

function take() {
  if (!suggested) return;
  const line = data.kind === "character" ? suggested : `${suggested} `; // the last word is no beginning of another
  box.setRangeText(line, box.value.length, box.value.length, "end");
  changed();
  box.focus();
}

/** A number, a bar as long as it is against the larger one, and how the lean one compares. */
function show(what, values, form, word) {
  const largest = Math.max(values.dense, values.lean);
  for (const name of ["dense", "lean"]) {
    const bar = document.createElement("span");
    bar.className = "bar";
    bar.style.setProperty("--part", values[name] / largest);
    const number = document.createElement("span");
    number.className = "number";
    number.textContent = form(values[name]);
    const against = document.createElement("span");
    against.className = "against";
    against.textContent = name === "lean" ? word(values.dense / values.lean) : "";
    at(`${name}-${what}`).replaceChildren(number, bar, against);
  }
}

function times() {
  const found = { dense: models.dense.median, lean: models.lean.median };
  show("time", found, (ms) => ms.toFixed(2), (ratio) => `${ratio.toFixed(1)} times as fast`);
}

function facts() {
  const { dense, lean } = data.models;
  const pair = (what) => ({ dense: dense[what], lean: lean[what] });
  const fewer = (word) => (ratio) => `${ratio.toFixed(1)} times ${word}`;
  show("file", pair("bytes"), (size) => `${(size / 1e6).toFixed(2)} MB`, fewer("smaller"));
  show("weights", pair("weights"), (count) => count.toLocaleString("en"), fewer("fewer"));
  for (const name of ["dense", "lean"]) at(`${name}-units`).textContent = data.models[name].widths.join(" + ");
  const units = (name) => data.models[name].widths.reduce((a, b) => a + b);
  at("lead").textContent = `Two language models are in this page, both trained on ${data.source}: a dense one, and a lean one `
    + `with ${units("lean")} hidden units instead of ${units("dense")} and weights of eight bits. They run in your browser; `
    + "what you type stays here.";
  at("turn").textContent = TURN;
  at("runtime").textContent = data.runtime;
}

function failed(error) {
  at("state").textContent = `The models do not run here: ${error.message ?? error}`;
  document.body.dataset.state = "failed";
}

box.addEventListener("input", changed);
box.addEventListener("keydown", (event) => {
  const plain = !event.shiftKey && !event.ctrlKey && !event.altKey && !event.metaKey;
  if (event.key === "Tab" && plain && suggested && box.selectionStart === box.value.length) {
    event.preventDefault();
    take();
  } else if (event.key === "Escape") {
    suggest(""); // and Tab goes on to the button, as everywhere
  }
});
at("take").addEventListener("click", take);

box.value = data.prompt;
last = data.prompt;
facts();
suggest("");
box.setSelectionRange(box.value.length, box.value.length);
box.focus();
try {
  models = await load();
  for (const model of Object.values(models)) {
    for (let i = 0; i < WARM_UP; i += 1) await model.turn([0]);
    model.times = [];
  }
  at("state").textContent = "";
  document.body.dataset.state = "ready";
  changed();
} catch (error) {
  failed(error);
}
