// Job files as people write them: a line NAME: VALUE for each field, lists and mappings in brackets or in lines of
// their own. What is more than that is refused with its line, for `swell submit FILE.yaml` reads all of YAML.

const NUMBER = /^[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?$/;
const WORDS = { true: true, True: true, false: false, False: false, null: null, "~": null, "": null };

function scalar(text) {
  if (/^"/.test(text)) return JSON.parse(text);
  const quoted = /^'((?:[^']|'')*)'$/.exec(text);
  if (quoted) return quoted[1].replaceAll("''", "'");
  if (text in WORDS) return WORDS[text];
  if (NUMBER.test(text)) return Number(text);
  if (/^[&*!|>%@`'[\]{}#]|: | #/.test(text)) throw new SyntaxError(text);
  return text;
}

// `[a, b]` and `{A: b}` without others in them.
function value(line) {
  const text = line.replace(/^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^"'].*?|)\s+#.*$/, "$1");
  const found = /^(?:(\[).*\]|(\{).*\})$/.exec(text);
  if (found === null) return scalar(text);
  const parts = text.slice(1, -1).match(/\s*"(?:[^"\\]|\\.)*"[^,]*|[^,]+/g)?.map((part) => part.trim()) ?? [];
  return found[1] === "[" ? parts.map(scalar) : Object.fromEntries(parts.map(pair));
}

function pair(text) {
  const found = /^("(?:[^"\\]|\\.)*"|[\w.-]+):(?:\s+(.*))?$/.exec(text);
  if (found === null) throw new SyntaxError(text);
  return [String(scalar(found[1])), value(found[2] ?? "")];
}

/** The fields of the text of a job file. Throws an Error that names the line. */
export function parse(text) {
  const job = {};
  let name = null;
  for (const [place, line] of text.split("\n").entries()) {
    if (/^\s*(#.*|---)?$/.test(line)) continue;
    try {
      const item = /^\s*-\s+(.*)$/.exec(line);
      if (item && name !== null) job[name] = [...(job[name] ?? []), value(item[1].trim())];
      else if (/^\s/.test(line) && name !== null) job[name] = { ...job[name], ...Object.fromEntries([pair(line.trim())]) };
      else {
        const [key, given] = pair(line.trimEnd());
        if (key in job) throw new SyntaxError(key);
        [name, job[key]] = [given === null ? key : null, given];
      }
    } catch {
      throw new Error(`line ${place + 1} cannot be read here; write NAME: VALUE, or submit the file with swell submit FILE.yaml`);
    }
  }
  return Object.fromEntries(Object.entries(job).filter(([, given]) => given !== null));
}

function told(given) {
  if (typeof given !== "string") return JSON.stringify(given).replaceAll(/([,:])(?=["[{\d])/g, "$1 ");
  const isPlain = /^[\w./~+][\w./~+@=: -]*$/.test(given) && !/: |:$| $/.test(given) && !(given in WORDS) && !NUMBER.test(given);
  return isPlain ? given : JSON.stringify(given);
}

/** The text of a job file that `parse` reads. */
export function write(job) {
  return Object.entries(job).map(([name, given]) => `${name}: ${told(given)}\n`).join("");
}

// A word as a shell takes it for itself.
export function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${String(word).replaceAll("'", `'"'"'`)}'`;
}

/** The command that submits the job. */
export function command({ args = [], ...job }) {
  const options = Object.entries(job).flatMap(([name, given]) => {
    const option = `--${name.replaceAll("_", "-")}`;
    if (given === false) return [];
    if (given === true) return [option];
    const values = Array.isArray(given) ? given : typeof given === "object" ? Object.entries(given).map((each) => each.join("=")) : [given];
    return values.map((each) => `${option} ${quoted(String(each))}`);
  });
  const words = [].concat(args).map((word) => ` ${quoted(String(word))}`);
  return ["swell submit", ...options].join(" ") + (words.length ? ` --${words.join("")}` : "");
}
