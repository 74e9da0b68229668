// The page as a whole: where the history comes from (a gateway or this file), and what is shown of it.

import {History, parseEvents} from './model.js';
import {byId, setText} from './dom.js';
import {showMosaic, showServices, showSummary, showOthers} from './now.js';
import {showSlider, showPicture, showMarks, openMark} from './time.js';
import {setUpRequests, setUpPlan, showTroubled, offerServices} from './why.js';

const history = new History();
let chosenAt = null;  // Seconds; null: the newest frame, whatever comes.
let key = null;       // In this variable and nowhere else.

function show() {
  if (!history.frames.length) return;
  const at = chosenAt ?? history.last.at;
  const frame = history.frameAt(at);
  showMosaic(history, frame);
  showServices(history, frame);
  showSummary(history, frame);
  showSlider(history, at, chosenAt === null);
  showPicture(history, at, jump);
  document.body.setAttribute('data-ready', 'yes');
  document.body.setAttribute('data-frame', String(frame.number));
}

// To the time of a mark.
function jump(mark, opens = true) {
  chosenAt = mark.from_s + 0.001;
  if (history.frames.length && chosenAt > history.last.at) chosenAt = history.last.at;
  show();
  if (opens) openMark(mark);
}

byId('slider').addEventListener('input', event => {
  const at = Number(event.target.value);
  chosenAt = at >= history.last.at - 1e-9 && history.about.kind === 'live' ? null : at;
  show();
});
window.addEventListener('resize', () => show());
byId('live').addEventListener('click', () => { chosenAt = null; show(); });

// ---- A gateway ----

class Denied extends Error {}

async function get(path, options = {}) {
  const headers = {...options.headers};
  if (key) headers.Authorization = `Bearer ${key}`;
  const answer = await fetch(path, {...options, headers, cache: 'no-store', credentials: 'omit'});
  if (answer.status === 401) throw new Denied('This server wants a key.');
  if (answer.status === 403) throw new Denied('This key may not watch the server: the role viewer or admin is needed.');
  return answer;
}

async function errorOf(answer) {
  try { return (await answer.json()).error; } catch { return `the server answered ${answer.status}`; }
}

function take(text) {
  let whole = true;
  for (const {event, data} of parseEvents(text)) {
    const value = JSON.parse(data);
    if (event === 'about') history.about = value;
    else if (event === 'fleet') history.addFleet(value);
    else if (event === 'mark') history.addMark(value);
    else if (event === 'frame') whole = history.addFrame(value) && whole;
  }
  return whole;
}

function tellState(text, good) {
  setText(byId('state'), text);
  byId('state').className = good ? 'good' : 'bad';
}

// One look at the stream. It asks for what is new since the newest frame that is here.
let restart = true;
let hasPast = false;
async function look() {
  const answer = await get(restart || !history.last ? 'events' : `events/${history.last.number}`);
  if (!answer.ok) throw new Error(await errorOf(answer));
  const before = history.about.start_ms;
  const text = await answer.text();
  restart = !take(text);
  // The server was restarted: its frames begin anew.
  if (before !== undefined && before !== history.about.start_ms) {
    history.frames = [];
    history.marks.clear();
    history.fleets.clear();
    hasPast = false;
    restart = true;
    return;
  }
  tellState('live', true);
  byId('key-form').hidden = true;
  show();
  showMarks(history, jump);
  showOthers(history);
  offerServices(history.fleets.get(history.last.fleet));
  if (hasPast) return;
  // What was before comes afterwards, so that the first picture is not late.
  hasPast = true;
  const past = await get('events/0');
  if (past.ok) take(await past.text());
  const troubled = await get('requests');
  if (troubled.ok) showTroubled(history, (await troubled.json()).requests);
  show();
  showMarks(history, jump);
}

async function follow() {
  let wait = 1000;
  for (;;) {
    try {
      await look();
      wait = 1000;
    } catch (problem) {
      if (problem instanceof Denied) {
        tellState(problem.message, false);
        byId('key-form').hidden = false;
        byId('key').focus();
        await new Promise(resolve => byId('key-form').addEventListener('submit', resolve, {once: true}));
        continue;
      }
      tellState(`no connection (${problem.message}); trying again`, false);
      restart = true;
      wait = Math.min(wait * 1.5, 10000);
    }
    // While nobody looks, nothing is asked.
    await new Promise(resolve => setTimeout(resolve, document.hidden ? Math.max(wait, 5000) : wait));
  }
}

byId('key-form').addEventListener('submit', event => {
  event.preventDefault();
  key = byId('key').value;
  byId('key').value = '';
});

function goLive() {
  setUpRequests(history, async id => {
    const answer = await get(`requests/${encodeURIComponent(id)}`);
    return answer.ok ? answer.json() : null;
  });
  byId('troubled-again').addEventListener('click', async () => {
    const answer = await get('requests');
    if (answer.ok) showTroubled(history, (await answer.json()).requests);
  });
  const ask = async (path, options) => {
    const answer = await get(path, options);
    if (!answer.ok) throw new Error(await errorOf(answer));
    return answer.json();
  };
  setUpPlan(question => ask('what-if', {method: 'POST', body: JSON.stringify(question)}), () => ask('what-if'));
  follow();
}

// ---- A file ----

function openFile(text) {
  history.load(JSON.parse(text));
  setText(byId('state'), history.about.kind);
  setText(byId('title'), history.about.title);
  setText(byId('sentence'), history.about.sentence);
  document.title = `${history.about.title} - Tangram`;
  byId('plan-box').hidden = true;
  byId('troubled-again').hidden = true;
  setText(byId('live'), 'End');
  setUpRequests(history, async id => history.requests.find(story => String(story.id) === id) ?? null);
  showTroubled(history, history.requests.slice(0, 60));
  // The first broken promise is what a reader wants to see first; else the end.
  show();
  showMarks(history, jump);
  const broken = history.marksAscending().find(mark => mark.kind === 'broken');
  if (!broken) return;
  jump(broken, false);
  openMark(broken, false);
}

const recorded = byId('history');
if (recorded) openFile(recorded.textContent); else goLive();
