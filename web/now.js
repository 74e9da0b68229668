// The fleet at an instant: devices as mosaics of their slices, services with their promises.

import {byId, make, setText, setAttribute, colourOf} from './dom.js';
import {cutsOf} from './model.js';
import {percent, figure, milliseconds, reasons, states} from './words.js';
import {latencyPicture, some} from './lines.js';

// Elements of the mosaic by the name of their slice, kept while the same slices are there.
let shownFleet = null;
let tiles = new Map();
let chosen = null;

function label(fleet, cut) {
  const names = cut.services.map(id => fleet.services[id].name);
  return names.length ? names.join(', ') : 'free';
}

function describe(fleet, cut) {
  const running = cut.running === null ? '' : `, runs a batch of ${fleet.services[cut.running].name}`;
  const processes = cut.processes > 1 ? `, ${cut.processes} processes` : '';
  return `${cut.name}: ${label(fleet, cut)}, ${states[cut.state]}, ${percent(cut.busy, 0)} busy${processes}${running}`;
}

function buildMosaic(fleet, cuts) {
  const box = byId('devices');
  box.replaceChildren();
  tiles = new Map();
  fleet.devices.forEach((device, index) => {
    const row = make('div', {class: 'device', 'data-device': device.name});
    row.append(make('h3', {text: device.name}, make('small', {
      text: ` ${device.type}${device.price_per_hour ? `, ${figure(device.price_per_hour)}/h` : ''}`,
    })));
    const bar = make('div', {class: 'bar', role: 'group', 'aria-label': `Slices of ${device.name}`});
    for (const cut of cuts.filter(each => each.device === index)) {
      const fill = make('span', {class: 'fill'});
      const name = make('span', {class: 'name'});
      const note = make('span', {class: 'note'});
      const tile = make('button', {
        type: 'button', class: 'slice', 'data-device': device.name, 'data-slice': cut.name,
        'data-service': cut.services.map(id => fleet.services[id].name).join(' '),
        onclick: () => { chosen = chosen === cut.name ? null : cut.name; showDetail(); },
      }, fill, name, note);
      const colour = cut.services.length ? colourOf(cut.services[0]) : 'var(--free)';
      tile.style.setProperty('--c', colour);
      tile.style.left = `${100 * cut.start / device.units}%`;
      tile.style.width = `${100 * cut.units / device.units}%`;
      name.textContent = label(fleet, cut);
      tiles.set(cut.name, {tile, fill, note});
      bar.append(tile);
    }
    row.append(bar);
    box.append(row);
  });
  byId('legend').replaceChildren(...fleet.services.map((service, i) => {
    const chip = make('span', {class: 'chip'});
    chip.style.background = colourOf(i);
    return make('span', {class: 'key'}, chip, service.name);
  }));
}

let latest = null;
function showDetail() {
  const detail = byId('detail');
  const cut = latest && latest.cuts.find(each => each.name === chosen);
  for (const [name, {tile}] of tiles) setAttribute(tile, 'aria-pressed', String(name === chosen));
  setText(detail, cut ? describe(latest.fleet, cut) : 'Choose a slice to read what it does.');
}

export function showMosaic(history, frame) {
  const fleet = history.fleets.get(frame.fleet);
  if (!fleet) return;
  const cuts = cutsOf(fleet, frame);
  const same = shownFleet === fleet && cuts.length === tiles.size && cuts.every(cut => tiles.has(cut.name));
  if (!same) buildMosaic(fleet, cuts);
  shownFleet = fleet;
  for (const cut of cuts) {
    const {tile, fill, note} = tiles.get(cut.name);
    setAttribute(tile, 'data-state', cut.state);
    setAttribute(tile, 'data-busy', cut.busy.toFixed(2));
    setAttribute(tile, 'aria-label', describe(fleet, cut));
    setAttribute(tile, 'title', describe(fleet, cut));
    fill.style.height = `${Math.round(cut.busy * 100)}%`;
    setText(note, cut.state === 'busy' || cut.state === 'idle' ? `${cut.profile} · ${percent(cut.busy, 0)}`
                                                                : `${cut.profile} · ${cut.state}`);
  }
  latest = {fleet, cuts};
  showDetail();
}

const rejectedText = rejected => {
  const parts = Object.entries(rejected).map(([reason, count]) => `${count.toLocaleString('en')}: ${reasons[reason]}`);
  return parts.join('; ');
};

export function showServices(history, frame) {
  const fleet = history.fleets.get(frame.fleet);
  if (!fleet) return;
  const frames = some(history.frames, 120);
  const rows = fleet.services.map((service, i) => {
    const sample = frame.services[i];
    if (!sample) return null;
    const promised = service.percentile / 100;
    const share = (value, head) => make('td', {
      class: value === null ? 'none' : value < promised ? 'bad' : 'good', 'data-head': head,
      text: value === null ? '–' : percent(value) + (value < promised ? ' ✗' : ''),
    });
    const chip = make('span', {class: 'chip'});
    chip.style.background = colourOf(i);
    const rejected = Object.values(sample.rejected).reduce((sum, count) => sum + count, 0);
    return make('tr', {'data-service': service.name, 'data-served': sample.served, 'data-late': sample.late,
                       'data-rejected': rejected, 'data-failed': sample.failed, 'data-waiting': sample.waiting},
        make('th', {scope: 'row'}, chip, service.name),
        make('td', {'data-head': 'Promise', text: `${figure(service.percentile, 5)} % in ${figure(service.promise_ms)} ms`}),
        share(sample.share_1m, 'In time, 1 min'), share(sample.share_1h, '1 h'), share(sample.share, 'since start'),
        make('td', {'data-head': 'Requests/s', text: figure(sample.rate)}),
        make('td', {'data-head': 'p50 / p95 / p99, ms',
                    text: `${milliseconds(sample.p50_ms)} / ${milliseconds(sample.p95_ms)} / ${milliseconds(sample.p99_ms)}`}),
        make('td', {class: 'picture'}, latencyPicture(frames, i, service.promise_ms, frame.at)),
        make('td', {'data-head': 'Waiting', text: figure(sample.waiting)}),
        make('td', {'data-head': 'Slices', text: figure(sample.slices)}),
        make('td', {'data-head': 'Rejected', class: rejected ? 'why' : '',
                    text: rejected ? `${rejected.toLocaleString('en')} (${rejectedText(sample.rejected)})` : '0'}));
  });
  byId('services').replaceChildren(...rows.filter(row => row));
}

export function showSummary(history, frame) {
  const fleet = history.fleets.get(frame.fleet);
  if (!fleet) return;
  const cuts = cutsOf(fleet, frame);
  const count = state => cuts.filter(cut => cut.state === state).length;
  const away = ['lent', 'cutting', 'lost'].filter(count).map(state => `${count(state)} ${state}`);
  const broken = fleet.services.filter((service, i) => {
    const share = frame.services[i]?.share_1m;
    return share !== null && share !== undefined && share < service.percentile / 100;
  });
  const parts = [`${fleet.devices.length} devices, ${cuts.length} slices`, ...away];
  if (frame.moving) parts.push('moving to another plan');
  if (fleet.cost_per_hour) parts.push(`${figure(fleet.cost_per_hour)} per hour`);
  const waiting = frame.services.reduce((sum, service) => sum + (service?.waiting ?? 0), 0);
  parts.push(`${waiting} requests wait`);
  setText(byId('summary'), parts.join(' · '));
  const verdict = byId('verdict');
  setAttribute(verdict, 'class', broken.length ? 'bad' : 'good');
  setText(verdict, broken.length ? `Promise broken in the last minute: ${broken.map(service => service.name).join(', ')}`
                                 : 'Every promise was kept in the last minute.');
}

const row = (...cells) => make('tr', {}, ...cells.map((text, i) => make(i ? 'td' : 'th', i ? {text} : {scope: 'row', text})));

export function showOthers(history) {
  const {training, nodes} = history.about;
  byId('training-box').hidden = !training?.jobs?.length;
  byId('training').replaceChildren(...(training?.jobs ?? []).map(job => row(
      job.name, job.state, job.steps_per_s > 0 ? figure(job.steps_per_s) : '–', figure(job.step ?? null),
      job.loss === null || job.loss === undefined ? '–' : figure(job.loss, 4), (job.slices ?? []).join(', ') || '–')));
  byId('nodes-box').hidden = !nodes?.length;
  byId('nodes').replaceChildren(...(nodes ?? []).map(node => row(
      node.name, node.state ?? '–', node.address ?? '–', node.rtt_us > 0 ? `${figure(node.rtt_us)} µs` : '–',
      String((node.slices ?? []).length))));
}
