// The fleet's history as the page keeps it: faces, frames and marks, put together from events or from a file.
//
// A frame of the stream has only what changed since another frame; here every frame is whole. Lists share what stayed
// the same, so that hours of frames take little memory.

export const framesMax = 5000;

export class History {
  constructor() {
    this.fleets = new Map();  // By number.
    this.frames = [];         // Whole, ascending in time.
    this.marks = new Map();   // By number.
    this.requests = [];       // Of a file: those that were not served in time.
    this.about = {kind: 'live'};
  }

  get last() { return this.frames[this.frames.length - 1]; }

  addFleet(fleet) { this.fleets.set(fleet.number, fleet); }
  addMark(mark) { this.marks.set(mark.number, mark); }

  // Returns false if the frame builds on one that is not here: then the reader must ask for a whole one.
  addFrame(frame) {
    const base = frame.since === null ? null : this.find(frame.since);
    if (frame.since !== null && !base) return false;
    const slices = new Map(base ? base.slices : []);
    for (const [id, state, busy, running] of frame.slices) slices.set(id, {id, state, busy, running});
    const services = base ? base.services.slice() : [];
    for (const service of frame.services) services[service.id] = service;
    const whole = {number: frame.number, at: frame.at_s, fleet: frame.fleet, moving: frame.moving, slices, services};
    const at = this.place(frame.number);
    if (this.frames[at] && this.frames[at].number === frame.number) this.frames[at] = whole;
    else this.frames.splice(at, 0, whole);
    if (this.frames.length > framesMax) this.frames.splice(1, 1);
    return true;
  }

  // The index of the first frame with this number or a larger one.
  place(number) {
    let low = 0, high = this.frames.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.frames[middle].number < number) low = middle + 1; else high = middle;
    }
    return low;
  }

  find(number) {
    const frame = this.frames[this.place(number)];
    return frame && frame.number === number ? frame : null;
  }

  // The last frame at or before `at` seconds; the first if there is none.
  frameAt(at) {
    let low = 0, high = this.frames.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.frames[middle].at <= at + 1e-9) low = middle + 1; else high = middle;
    }
    return this.frames[Math.max(0, low - 1)];
  }

  marksAscending() { return [...this.marks.values()].sort((a, b) => a.number - b.number); }

  // A file's whole history.
  load(file) {
    this.about = {kind: file.kind, title: file.title, sentence: file.about};
    for (const fleet of file.fleets) this.addFleet(fleet);
    for (const frame of file.frames) this.addFrame(frame);
    for (const mark of file.marks) this.addMark(mark);
    this.requests = file.requests;
  }
}

// Server-sent events from text: [{event, id, data}].
export function parseEvents(text) {
  const events = [];
  for (const block of text.split('\n\n')) {
    const event = {event: 'message', id: null, data: ''};
    for (const line of block.split('\n')) {
      const colon = line.indexOf(': ');
      if (colon < 1) continue;
      const field = line.slice(0, colon), value = line.slice(colon + 2);
      if (field === 'data') event.data += value;
      else if (field === 'event' || field === 'id') event[field] = value;
    }
    if (event.data) events.push(event);
  }
  return events;
}

// The slices of a fleet as people see them: several processes of one cut are one slice.
export function cutsOf(fleet, frame) {
  const cuts = new Map();
  const order = ['idle', 'busy', 'lent', 'cutting', 'lost'];  // What matters more comes later.
  for (const face of fleet.slices) {
    const now = frame.slices.get(face.id);
    if (!now) continue;
    const name = face.name.replace(/#\d+$/, '');
    const cut = cuts.get(name);
    if (!cut) {
      cuts.set(name, {name, device: face.device, profile: face.profile, start: face.start, units: face.units,
                      services: face.services, state: now.state, busy: now.busy, running: now.running, processes: 1});
      continue;
    }
    cut.busy = (cut.busy * cut.processes + now.busy) / (cut.processes + 1);
    cut.processes += 1;
    if (order.indexOf(now.state) > order.indexOf(cut.state)) cut.state = now.state;
    if (cut.running === null) cut.running = now.running;
  }
  return [...cuts.values()].sort((a, b) => a.device - b.device || a.start - b.start);
}
