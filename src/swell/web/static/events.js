// What changes while a page is seen: it asks the platform again and again, which answers as soon as there is
// something to tell.

const LOST = "no connection to the platform";
const GONE = "the platform does not have this any more";
const SIGNED_OUT = "this browser is not signed in any more: run `swell page`";
// The platform lets a question wait so long for a change. After one a page rests: many may be open.
const WAIT_S = 25;
const REST_MS = 2500;
const RETRY_MS = 500;

function show(kind, text) {
  const place = document.querySelector("[data-fact=link]");
  if (place === null) return;
  place.className = `link ${kind}`;
  if (place.textContent !== text) place.textContent = text;
}

// A page of another version of the platform may not understand what this one tells. It is loaded again, once: a
// page of before that comes out of a cache would be loaded for ever.
function isOutdated(begun, told) {
  if (!begun || !told || begun === told || sessionStorage.getItem("swell-loaded-for") === told) return false;
  sessionStorage.setItem("swell-loaded-for", told);
  return true;
}

// Calls `work` over and over while the page is seen. It gets a signal that tells when that is no longer so, and
// answers after how many milliseconds it is to be called again; null: when somebody calls what is returned here.
export function repeat(work) {
  let leaving = null;
  let timer = null;

  async function run() {
    const { signal } = (leaving = new AbortController());
    const pauseMs = await work(signal);
    if (pauseMs !== null && !signal.aborted) timer = setTimeout(run, pauseMs);
  }

  // A browser has few connections to one host: a page that is not seen leaves its own to others.
  function begin() {
    clearTimeout(timer);
    leaving?.abort();
    if (!document.hidden) run();
  }

  document.addEventListener("visibilitychange", begin);
  begin();
  return begin;
}

// What the platform answers to a question; a status of 0: it did not.
export async function ask(path, query, signal) {
  try {
    const answer = await fetch(`${path}?${new URLSearchParams(query)}`, { signal });
    return { status: answer.status, told: answer.ok ? await answer.json() : null };
  } catch {
    return { status: 0, told: null };
  }
}

// begun: id and version of the state that the page was loaded with. onTold: gets what has changed since; with a
// version it is all that there is. onGone: what the page shows is no longer there. query: further parameters.
export function follow(begun, onTold, onGone = () => {}, query = {}) {
  let lastId = begun.id;
  let isLive = false; // else it is asked whether the platform is there at all
  let numFailures = 0;
  repeat(async (signal) => {
    const asked = { ...query, since: lastId, wait_s: isLive ? WAIT_S : 0 };
    const { status, told } = await ask("/v1/changes", asked, signal);
    if (signal.aborted) return null;
    isLive = told !== null;
    if (isLive) {
      lastId = told.id;
      numFailures = 0;
      show("live", "live");
      if (isOutdated(begun.version, told.version)) location.reload();
      else onTold(told);
      return REST_MS;
    }
    if (status === 404) {
      show("lost", GONE);
      onGone();
      return null;
    }
    show("lost", status === 401 ? SIGNED_OUT : LOST);
    numFailures = Math.min(numFailures + 1, 10);
    return RETRY_MS * numFailures;
  });
}

// What a page sends that changes something. headers: further ones.
export async function send(method, path, body, headers = {}) {
  const answer = await fetch(path, {
    method,
    headers: {
      "Content-Type": "application/json",
      "X-Swell-CSRF": document.querySelector("meta[name=csrf]").content,
      ...headers,
    },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.error);
  return told;
}
