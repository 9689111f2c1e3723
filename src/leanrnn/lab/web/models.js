// Language models that go on with a text. They are in the page, packed, and so is what runs them.

const COUNT = 12; // words of a completion
const LETTERS = 60; // and of a model that writes letters
const TURN = 16; // tokens a model reads in a row while it is timed: clocks of browsers are coarse, processors interrupted
const KEPT = 48; // turns the median is of
const UNKNOWN = "<unk>";

const at = (id) => document.getElementById(id);
const data = JSON.parse(at("data").textContent);
const numbers = new Map(data.words.map((word, number) => [word, number]));
const unknown = numbers.get(UNKNOWN) ?? -1;
const pause = () => new Promise((done) => setTimeout(done));

// ---- Text and tokens ----

/** The tokens of a text as strings, cut as for training. */
function tokens(text) {
  if (data.kind === "character") return Array.from(text);
  if (data.kind === "ptb") return text.toLowerCase().replaceAll("\n", " <eos> ").split(/\s+/).filter(Boolean);
  return text.toLowerCase().match(/[\p{L}\p{N}_]+|[^\p{L}\p{N}_\s]/gu) ?? [];
}

/** What is complete, as numbers, and the beginning of a word that may become another one. */
function parts(text) {
  const found = tokens(text);
  let begun = "";
  const open = data.kind !== "character" && found.length > 1 && /[\p{L}\p{N}_]$/u.test(text);
  if (open && data.words.some((word) => word.startsWith(found.at(-1)))) begun = found.pop();
  return { given: found.map((token) => numbers.get(token) ?? Math.max(unknown, 0)), begun };
}

/** Words as one would write them behind a text: no space before a comma, none after a bracket that opens. */
function written(words, text) {
  if (data.kind === "character") return words.join("");
  return words.reduce((line, word) => {
    const tight = line === "" || /[\s([{]$/.test(line) || /^[.,;:!?)\]}]$/.test(word);
    return line + (tight ? "" : " ") + word;
  }, text).slice(text.length);
}

// ---- Models ----

/** A model, and the states it was in after every token of the text it has read. */
class Model {
  constructor(ort, session) {
    this.ort = ort;
    this.session = session;
    this.times = [];
    this.read = [];
    this.states = [session.inputNames.slice(1).map((name) => {
      const width = session.inputMetadata.find((each) => each.name === name).shape[2];
      return new ort.Tensor("float32", new Float32Array(width), [1, 1, width]);
    })];
  }

  /** One token on from a state: scores of what may follow, and the state after it. */
  async step(token, state) {
    const [first, ...others] = this.session.inputNames;
    const feed = { [first]: new this.ort.Tensor("int64", BigInt64Array.of(BigInt(token)), [1, 1]) };
    others.forEach((name, i) => { feed[name] = state[i]; });
    const found = await this.session.run(feed);
    const [scores, ...after] = this.session.outputNames.map((name) => found[name]);
    return { scores: scores.data, state: after };
  }

  /** Scores and state after some tokens; what they share with the last ones is not read again. */
  async after(given) {
    let same = 0;
    while (same < given.length - 1 && given[same] === this.read[same]) same += 1;
    this.read.length = same;
    this.states.length = same + 1;
    let found;
    for (let i = same; i < given.length; i += 1) {
      if (i % 16 === 15) await pause();
      found = await this.step(given[i], this.states[i]);
      this.read.push(given[i]);
      this.states.push(found.state);
    }
    return found;
  }

  /** The likeliest words after a text, as the rest of the text: the first one goes on with the word begun. */
  async complete(text) {
    const { given, begun } = parts(text);
    if (!given.length) return { line: "", begun, heard: [] };
    let { scores, state } = await this.after(given);
    const words = [];
    const heard = [...given];
    const count = data.kind === "character" ? LETTERS : COUNT;
    while (words.length < count) {
      const best = likeliest(scores, words.length ? "" : begun);
      words.push(data.words[best]);
      heard.push(best);
      if (words.length < count) ({ scores, state } = await this.step(best, state));
    }
    const rest = begun ? words[0].slice(begun.length) + written(words.slice(1), text) : written(words, text);
    return { line: rest, begun, heard };
  }

  /** Milliseconds a token, over one turn of reading a text with its completion. */
  async turn(heard) {
    let state = this.states[0];
    const began = performance.now();
    for (let i = 0; i < TURN; i += 1) ({ state } = await this.step(heard[i % heard.length], state));
    this.times = [...this.times, (performance.now() - began) / TURN].slice(-KEPT);
  }

  get median() {
    const sorted = [...this.times].sort((a, b) => a - b);
    const middle = sorted.length >> 1;
    return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  }
}

/** Number of the word with the highest score, of those that begin so; never the one for unknown words. */
function likeliest(scores, begun) {
  let best = -1;
  scores.forEach((score, i) => {
    if (i !== unknown && (best < 0 || score > scores[best]) && data.words[i].startsWith(begun)) best = i;
  });
  return best;
}

/** What was packed into the page under a name. */
async function unpacked(name) {
  const text = atob(at(name).textContent);
  at(name).remove();
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function load() {
  const script = new Blob([await unpacked("runtime-script")], { type: "text/javascript" });
  const ort = await import(URL.createObjectURL(script));
  ort.env.wasm.numThreads = 1; // several share memory, which a page from disk may not
  ort.env.wasm.wasmBinary = (await unpacked("runtime-wasm")).buffer;
  const models = {};
  for (const name of ["lean", "dense"]) {
    models[name] = new Model(ort, await ort.InferenceSession.create(await unpacked(name)));
  }
  return models;
}
