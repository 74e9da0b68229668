// Why a request ended as it did, and what a plan would be under another promise or rate.

import {byId, make, setText} from './dom.js';
import {clock, figure} from './words.js';

const endings = {
  served: 'It was answered in time', late: 'It was answered late', rejected: 'It was rejected', failed: 'It failed',
  abandoned: 'Its caller went away',
};

// The life of a request, in sentences.
export function storyText(history, story) {
  const steps = [`It came at ${clock(history, story.arrived_s)} for ${story.service}: size ${figure(story.size)}` +
                 `${story.samples > 1 ? `, ${story.samples} samples` : ''}, to be answered within ${figure(story.deadline_ms)} ms.`];
  if (story.queue !== story.service) steps.push(`It waited with the requests of ${story.queue}, which runs the same model.`);
  if (story.batch !== null) {
    steps.push(`It waited ${figure(story.waited_ms)} ms in the bucket up to ${figure(story.bucket)}.`,
               `It ran in batch ${story.batch} with ${story.batch_samples} ${story.batch_samples === 1 ? 'sample' : 'samples'} on ` +
               `${story.slice} for ${figure(story.ran_ms)} ms; ${figure(story.expected_ms)} ms were expected.`);
  } else if (story.waited_ms > 0) {
    steps.push(`It waited ${figure(story.waited_ms)} ms and did not run.`);
  }
  const reason = story.outcome === 'rejected' ? ` (${story.reason})` : '';
  steps.push(`${endings[story.outcome]}${reason} at ${clock(history, story.ended_s)}; ${figure(story.waiting)} requests waited then.`);
  return steps;
}

function showStory(history, story) {
  byId('story').replaceChildren(
      make('h3', {text: `Request ${story.id}`}),
      make('ol', {}, ...storyText(history, story).map(text => make('li', {text}))),
      make('p', {class: 'needed'}, make('strong', {text: 'What it would have needed: '}), story.needed));
}

function list(history, stories, box) {
  box.replaceChildren(...stories.map(story => make('li', {}, make('button', {
    type: 'button', class: 'link', onclick: () => showStory(history, story),
    text: `${clock(history, story.ended_s)} ${story.service}, request ${story.id}: ` +
          `${story.outcome}${story.outcome === 'rejected' ? ` (${story.reason})` : ''}`,
  }))));
  byId('no-stories').hidden = stories.length > 0;
}

export function showTroubled(history, stories) { list(history, stories, byId('troubled')); }

// `ask` finds a request by its number or its id; null: nobody knows it.
export function setUpRequests(history, ask) {
  byId('request-form').addEventListener('submit', async event => {
    event.preventDefault();
    const id = byId('request-id').value.trim();
    if (!id) return;
    const found = await ask(id);
    if (found) showStory(history, found);
    else byId('story').replaceChildren(make('p', {
      text: `Nothing is kept of the request ${id}: it is unknown, it runs still, or it is too long ago.`,
    }));
  });
}

function planText(answer) {
  if (answer.state === 'running') return [`Planning: ${answer.question}…`];
  if (answer.problem) return [answer.problem];
  const lines = [answer.answer];
  for (const key of ['bound', 'binding', 'price']) if (answer[key]) lines.push(answer[key]);
  return lines;
}

export function showPlan(answer) {
  byId('plan-answer').replaceChildren(...planText(answer).map(text => make('p', {text})));
}

// `send` puts a question, `read` asks for the answer. Only one question runs at a time on the server.
export function setUpPlan(send, read) {
  const form = byId('plan-form');
  const factor = byId('rate-factor'), promise = byId('promise-factor');
  const tell = () => {
    setText(byId('rate-text'), `${Number(factor.value).toFixed(2)} × today's rate`);
    setText(byId('promise-text'), `${Number(promise.value).toFixed(2)} × the promised time`);
  };
  factor.addEventListener('input', tell);
  promise.addEventListener('input', tell);
  tell();
  form.addEventListener('submit', async event => {
    event.preventDefault();
    byId('plan-go').disabled = true;
    try {
      let answer = await send({service: byId('plan-service').value, rate_factor: Number(factor.value),
                               promise_factor: Number(promise.value)});
      showPlan(answer);
      while (answer.state === 'running') {
        await new Promise(resolve => setTimeout(resolve, 500));
        answer = await read();
        showPlan(answer);
      }
    } catch (problem) {
      showPlan({problem: String(problem.message ?? problem)});
    } finally {
      byId('plan-go').disabled = false;
    }
  });
}

export function offerServices(fleet) {
  const select = byId('plan-service');
  const names = fleet.services.map(service => service.name);
  if ([...select.options].map(option => option.value).join('\n') === names.join('\n')) return;
  select.replaceChildren(...names.map(name => make('option', {value: name, text: name})));
}
