// What the keys of a timeline show of it.

// Less than these seconds is not shown.
export const LEAST_S = 2;

// [from_s, to_s] after this key, within the whole and as long as it was unless the key zooms; [] for the whole;
// undefined: it is no key of the timeline. span: what is shown.
export function spanAfter(event, span, whole) {
  if (event.ctrlKey || event.metaKey || event.altKey) return undefined; // they are the browser's
  const [fromS, toS] = span;
  const partS = (toS - fromS) / 5;
  const wanted = {
    ArrowLeft: [fromS - partS, toS - partS],
    ArrowRight: [fromS + partS, toS + partS],
    "+": [fromS + partS, toS - partS],
    "-": [fromS - partS, toS + partS],
    0: [],
    Escape: [],
  }[event.key];
  return wanted?.length ? within(wanted, whole) : wanted;
}

function within([fromS, toS], [startS, endS]) {
  const lengthS = Math.max(LEAST_S, toS - fromS);
  if (lengthS >= endS - startS) return [];
  const beginS = Math.max(startS, Math.min((fromS + toS - lengthS) / 2, endS - lengthS));
  return [beginS, beginS + lengthS];
}
