// Pictures of numbers over time: small ones in the table of services, and the one above the slider.

import {draw} from './dom.js';

const path = (points, x, y) => {
  let text = '', pen = false;
  for (const [at, value] of points) {
    if (value === null || value === undefined) { pen = false; continue; }
    text += `${pen ? 'L' : 'M'}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = true;
  }
  return text;
};

// At most `max` of the frames, evenly, the last always.
export function some(frames, max) {
  if (frames.length <= max) return frames;
  const step = (frames.length - 1) / (max - 1);
  return Array.from({length: max}, (_, i) => frames[Math.round(i * step)]);
}

// p50, p95 and p99 of a service with its promise as a dashed line.
export function latencyPicture(frames, service, promiseMs, at) {
  const width = 180, height = 40;
  const [first, last] = [frames[0].at, frames[frames.length - 1].at];
  const x = time => 2 + (width - 4) * (last > first ? (time - first) / (last - first) : 1);
  const series = ['p50_ms', 'p95_ms', 'p99_ms'].map(
      key => frames.map(frame => {
        const sample = frame.services[service];
        return [frame.at, sample && sample[key] > 0 ? sample[key] : null];
      }));
  const top = Math.max(promiseMs * 1.15, ...series[2].map(point => point[1] ?? 0));
  const y = value => height - 2 - (height - 4) * Math.min(value / top, 1);
  const picture = draw('svg', {viewBox: `0 0 ${width} ${height}`, width, height, class: 'spark', 'aria-hidden': 'true'});
  picture.append(draw('line', {x1: 0, x2: width, y1: y(promiseMs), y2: y(promiseMs), class: 'promise'}));
  series.forEach((points, i) => picture.append(draw('path', {d: path(points, x, y), class: `p p${i}`})));
  picture.append(draw('line', {x1: x(at), x2: x(at), y1: 0, y2: height, class: 'cursor'}));
  return picture;
}

// The share in time of every service over all of the history, the worst part of the scale largest.
// `width` is that of its place in pixels, so that letters keep their form.
export function sharesPicture(frames, fleet, colourOf, at, width) {
  const height = 96, left = 52, bottom = 4;
  const [first, last] = [frames[0].at, frames[frames.length - 1].at];
  const x = time => left + (width - left - 6) * (last > first ? (time - first) / (last - first) : 1);
  const lowest = Math.min(0.999, ...frames.flatMap(frame => frame.services.map(s => s?.share_1m ?? 1)));
  const floor = Math.max(0, lowest - (1 - lowest) * 0.1);
  const y = share => 6 + (height - bottom - 6) * (1 - share) / (1 - floor);
  const picture = draw('svg', {viewBox: `0 0 ${width} ${height}`, width, height, class: 'shares', role: 'img',
                               'aria-label': 'Share of requests in time, of each service, over one minute'});
  for (const share of [1, 1 - (1 - floor) / 2, floor]) {
    picture.append(draw('line', {x1: left, x2: width, y1: y(share), y2: y(share), class: 'grid'}),
                   draw('text', {x: left - 6, y: y(share) + 4, class: 'axis', 'text-anchor': 'end',
                                 text: (share * 100).toFixed(floor > 0.97 ? 1 : 0) + ' %'}));
  }
  fleet.services.forEach((service, i) => {
    const points = frames.map(frame => [frame.at, frame.services[i]?.share_1m ?? null]);
    const line = draw('path', {d: path(points, x, y), class: 'share'});
    line.style.stroke = colourOf(i);
    picture.append(line);
  });
  picture.append(draw('line', {x1: x(at), x2: x(at), y1: 0, y2: height - bottom, class: 'cursor'}));
  return {picture, x: time => x(time) / width};
}
