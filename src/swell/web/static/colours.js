// A colour for each job, the same in the table and in the timeline, and a pattern for each class.

const NUM_COLOURS = 10;
const given = new Map();

// Number of the job's colour: in order of their first sight, so that neighbours differ.
export function colourNumber(id) {
  if (!given.has(id)) given.set(id, given.size % NUM_COLOURS);
  return given.get(id);
}

// A swatch beside the name of a job: the stylesheet knows colours and patterns.
export function paint(swatch, job) {
  swatch.className = `swatch c${colourNumber(job.id)} ${job.cls}`;
}
