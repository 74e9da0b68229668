// Numbers and times in words.

export const percent = (share, digits = 2) => {
  if (share === null || share === undefined) return '–';
  // Rounded down: 98.996 % must not read as 99.
  const scale = 10 ** digits;
  return (Math.floor(share * 100 * scale + 1e-6) / scale).toLocaleString('en', {maximumFractionDigits: digits}) + ' %';
};

export const figure = (value, digits = 3) => {
  if (value === null || value === undefined) return '–';
  if (value >= 1000) return Math.round(value).toLocaleString('en');
  return Number(value.toPrecision(digits)).toLocaleString('en', {maximumFractionDigits: 6});
};

export const milliseconds = value => value > 0 ? figure(value) : '–';

export const duration = seconds => {
  if (seconds < 10) return figure(seconds) + ' s';
  if (seconds < 90) return Math.round(seconds) + ' s';
  if (seconds < 5400) return Math.round(seconds / 60) + ' min';
  return figure(seconds / 3600) + ' h';
};

const two = number => String(number).padStart(2, '0');

// Live: the time of day. Recorded and simulated: the time since the start.
export function clock(history, at) {
  if (history.about.wall_ms !== undefined) {
    const date = new Date(history.about.wall_ms + (at - history.about.now_s) * 1000);
    return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  }
  const s = Math.floor(at);
  return `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
}

export const reasons = {
  too_late: 'no slice could answer by the deadline',
  queue_full: 'the limit of waiting requests was reached',
  too_large: 'no bucket of the plan takes their size',
  no_capacity: 'no slice served them',
  over_rate: 'beyond the rate that shared slices have room for',
};

export const states = {
  idle: 'idle', busy: 'busy', lent: 'lent to training', cutting: 'being cut or loading', lost: 'lost, starting again',
};

export const kinds = {
  move: 'move', loss: 'loss', lend: 'lend', refusals: 'refusals', broken: 'promise broken',
};
