// Server-sent events of the page: what has changed, in sequence. After a break the browser says which event
// it heard last, and hears what it missed; or, if that is gone, the whole state.

const link = () => document.querySelector("[data-fact=link]");

function show(kind, text) {
  const place = link();
  if (place === null) return;
  place.className = `link ${kind}`;
  place.textContent = text;
}

// since: id of the state that the page was loaded with. onDelta, onState: get what the event holds.
export function follow(since, onDelta, onState) {
  let lastId = since;
  let source = null;
  let retry = 0;
  let timer = null;

  // A browser has few connections to one host: a page that is not seen leaves its own to others.
  function open() {
    if (document.hidden) return;
    source = new EventSource(`/page/events?since=${encodeURIComponent(lastId)}`);
    source.onopen = () => show("live", "live");
    source.addEventListener("delta", (event) => hear(event, onDelta));
    source.addEventListener("state", (event) => hear(event, onState));
    source.onerror = () => {
      show("lost", "no connection to the platform");
      if (source.readyState === EventSource.CLOSED) reopen();
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

  // A browser gives up where it is refused, as while the platform starts again.
  function reopen() {
    retry = Math.min(retry + 1, 10);
    timer = setTimeout(open, 500 * retry);
  }

  open();
  document.addEventListener("visibilitychange", () => {
    close();
    open();
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
