// Server-sent events of the page: what has changed, in sequence. After a break the browser says which event
// it heard last, and hears what it missed; or, if that is gone, the whole state.

const LOST = "no connection to the platform";
const GONE = "the platform does not have this any more";
const link = () => document.querySelector("[data-fact=link]");

function show(kind, text) {
  const place = link();
  if (place === null) return;
  place.className = `link ${kind}`;
  if (place.textContent !== text) place.textContent = text;
}

// A page of another version of the platform may not understand its events. It is loaded again, once: a page of
// before that comes out of a cache would be loaded for ever.
function isOutdated(begun, told) {
  if (!begun || !told || begun === told || sessionStorage.getItem("swell-loaded-for") === told) return false;
  sessionStorage.setItem("swell-loaded-for", told);
  return true;
}

// begun: id and version of the state that the page was loaded with. onDelta, onState: get what the event holds.
// about: which events are wanted, by parameter; none: those of the platform. `restart` asks for the whole state.
export function follow(begun, onDelta, onState, about = () => ({})) {
  let lastId = begun.id;
  let source = null;
  let retry = 0;
  let timer = null;
  let isOver = false;
  const address = () => `/page/events?${new URLSearchParams({ ...about(), since: lastId })}`;

  // A browser has few connections to one host: a page that is not seen leaves its own to others.
  function open() {
    if (document.hidden || isOver) return;
    source = new EventSource(address());
    source.onopen = () => show("live", "live");
    source.addEventListener("delta", (event) => hear(event, onDelta));
    source.addEventListener("state", (event) => hear(event, (told) => {
      if (isOutdated(begun.version, told.version)) location.reload();
      else onState(told);
    }));
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) reopen(source);
      else show("lost", LOST);
    };
  }

  function close() {
    clearTimeout(timer);
    source?.close();
    source = null;
  }

  function hear(event, tell) {
    lastId = event.lastEventId;
    retry = 0;
    tell(JSON.parse(event.data));
  }

  // A browser gives up where it is refused, as while the platform starts again, and does not say why.
  async function reopen(refused) {
    const answer = await fetch(address()).catch(() => null);
    answer?.body?.cancel();
    if (source !== refused) return; // the page was out of sight meanwhile
    if (answer?.status === 404) {
      show("lost", GONE);
      return;
    }
    show("lost", answer?.status === 401 ? "this browser is not signed in any more: run `swell page`" : LOST);
    retry = Math.min(retry + 1, 10);
    timer = setTimeout(open, 500 * retry);
  }

  function reconnect() {
    close();
    open();
  }

  open();
  document.addEventListener("visibilitychange", reconnect);
  return {
    restart() {
      lastId = "";
      reconnect();
    },
    stop() {
      isOver = true;
      close();
    },
  };
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
