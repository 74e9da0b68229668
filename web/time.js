// The slider over time, the picture above it, and the marks: what happened, and why.

import {byId, make, setText, setAttribute, colourOf} from './dom.js';
import {clock, duration, kinds} from './words.js';
import {sharesPicture, some} from './lines.js';

let drawnFor = '';
let hiddenKinds = new Set();

export function showSlider(history, at, follows) {
  const slider = byId('slider');
  const frames = history.frames;
  const first = frames[0].at, last = frames[frames.length - 1].at;
  slider.min = first;
  slider.max = last;
  slider.value = at;
  setAttribute(slider, 'aria-valuetext', clock(history, at));
  setText(byId('instant'), clock(history, at));
  setText(byId('reach'), `${clock(history, first)} to ${clock(history, last)} (${duration(last - first)})`);
  setAttribute(byId('live'), 'aria-pressed', String(follows));
}

// Drawn anew when there is something new, not at every step of the slider.
export function showPicture(history, at, jump) {
  const fleet = history.fleets.get(history.last.fleet);
  if (!fleet) return;
  const frames = some(history.frames, 300);
  const {picture, x} = sharesPicture(frames, fleet, colourOf, at, Math.max(byId('shares').clientWidth, 280));
  byId('shares').replaceChildren(picture);
  const marks = history.marksAscending();
  const key = marks.map(mark => `${mark.number}${mark.until_s}`).join() + frames[0].at + frames[frames.length - 1].at;
  if (key === drawnFor) return;
  drawnFor = key;
  // Only the newest: ticks on top of each other help nobody.
  byId('ticks').replaceChildren(...marks.slice(-80).map(mark => {
    const tick = make('button', {type: 'button', class: `tick ${mark.kind}`, 'data-mark': mark.number,
                                 title: `${clock(history, mark.from_s)}: ${mark.title}`,
                                 'aria-label': `${kinds[mark.kind]} at ${clock(history, mark.from_s)}: ${mark.title}`,
                                 onclick: () => jump(mark)});
    tick.style.left = `${100 * Math.min(Math.max(x(Math.max(mark.from_s, frames[0].at)), 0), 1)}%`;
    return tick;
  }));
}

const markElements = new Map();

function markElement(history, jump) {
  const title = make('span', {class: 'title'}), when = make('span', {class: 'when'}), kind = make('span');
  const body = make('dl');
  const element = make('details', {class: 'mark'}, make('summary', {}, when, kind, title), body);
  return {element, title, when, kind, body, shown: ''};
}

function fillMark(history, mark, parts, jump) {
  const shown = JSON.stringify(mark);
  if (shown === parts.shown) return;
  parts.shown = shown;
  parts.element.id = `mark-${mark.number}`;
  parts.element.setAttribute('data-kind', mark.kind);
  setText(parts.when, clock(history, mark.from_s));
  setText(parts.title, mark.title);
  setText(parts.kind, kinds[mark.kind]);
  parts.kind.className = `kind ${mark.kind}`;
  const lines = [['Seen', mark.seen], ['Why', mark.why], ['Decided', mark.decided], ['Cost', mark.cost]];
  const items = lines.filter(([, text]) => text).flatMap(([head, text]) => [make('dt', {text: head}), make('dd', {text})]);
  const lasted = mark.until_s === null ? 'It is not over.' : `It lasted ${duration(mark.until_s - mark.from_s)}.`;
  items.push(make('dt', {text: 'Time'}), make('dd', {text: `${lasted} `}, make('button', {
    type: 'button', class: 'link', text: 'Show the fleet at this time', onclick: () => jump(mark, false),
  })));
  const related = mark.related.map(number => history.marks.get(number)).filter(other => other);
  if (related.length) {
    items.push(make('dt', {text: 'See'}), make('dd', {}, ...related.map(other => make('button', {
      type: 'button', class: 'link', text: `${clock(history, other.from_s)} ${other.title}`, onclick: () => jump(other),
    }))));
  }
  parts.body.replaceChildren(...items);
}

// Newest first. Elements stay, so that what a reader has opened stays open.
export function showMarks(history, jump) {
  const list = byId('marks');
  const marks = history.marksAscending().reverse();
  const counts = {};
  for (const mark of marks) counts[mark.kind] = (counts[mark.kind] ?? 0) + 1;
  const shown = marks.filter(mark => !hiddenKinds.has(mark.kind)).slice(0, 200);
  const wanted = shown.map(mark => {
    if (!markElements.has(mark.number)) markElements.set(mark.number, markElement(history, jump));
    const parts = markElements.get(mark.number);
    fillMark(history, mark, parts, jump);
    return parts.element;
  });
  wanted.forEach((element, i) => { if (list.children[i] !== element) list.insertBefore(element, list.children[i] ?? null); });
  while (list.children.length > wanted.length) list.lastChild.remove();
  byId('no-marks').hidden = marks.length > 0;
  const filters = byId('filters');
  const key = JSON.stringify(counts);
  if (filters.getAttribute('data-key') === key) return;
  filters.setAttribute('data-key', key);
  filters.replaceChildren(...Object.entries(counts).map(([kind, count]) => make('button', {
    type: 'button', class: `filter ${kind}`, 'aria-pressed': String(!hiddenKinds.has(kind)), text: `${kinds[kind]} (${count})`,
    onclick: event => {
      hiddenKinds.has(kind) ? hiddenKinds.delete(kind) : hiddenKinds.add(kind);
      event.target.setAttribute('aria-pressed', String(!hiddenKinds.has(kind)));
      showMarks(history, jump);
    },
  })));
}

// `moves`: the page, to where the mark is.
export function openMark(mark, moves = true) {
  const parts = markElements.get(mark.number);
  if (!parts) return;
  parts.element.open = true;
  if (!moves) return;
  parts.element.scrollIntoView({block: 'nearest'});
  parts.element.querySelector('summary').focus({preventScroll: true});
}
