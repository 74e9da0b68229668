// What a real browser makes of the page. Usage: node page.mjs CHROMIUM CHECK ARGUMENTS...
//
//   live ADMIN_URL            the page equals /status, the slider shows a past state, a lost worker turns up within 2 s
//   key ADMIN_URL KEY         a server with access control: nothing without the key, everything with it
//   file PATH TEXT...         a page that is a file; its marks have all of the texts
//   shots URL PREFIX          screenshots: light, dark, and as a phone has it
//
// Prints one line for each thing that was looked at, and fails with the first that is not as it should be.

import {Browser, sleep} from './browser.mjs';

const [program, check, ...given] = process.argv.slice(2);

function must(condition, what) {
  if (!condition) throw new Error(what);
  console.log(`ok: ${what}`);
}

const ready = 'document.body.getAttribute("data-ready") === "yes"';
const rows = `Object.fromEntries([...document.querySelectorAll('#services tr')].map(row => [row.dataset.service, {...row.dataset}]))`;
const tiles = `Object.fromEntries([...document.querySelectorAll('.slice')].map(tile => [tile.dataset.slice, {...tile.dataset}]))`;
const json = async (url, options) => (await fetch(url, options)).json();

// Nothing in the console, and nothing asked of anybody else.
function quiet(page, origin) {
  must(page.problems.length === 0, `no error in the console ${page.problems.slice(0, 3).join(' | ')}`);
  const strangers = page.requests.filter(url => !url.startsWith(origin) && !url.startsWith('data:') && url !== 'about:blank');
  must(strangers.length === 0, `no request to anywhere else ${strangers.slice(0, 3).join(' ')}`);
}

async function live(browser, url) {
  const page = await browser.open(null);
  const began = performance.now();
  await page.go(url);
  await page.until(`${ready} && document.querySelector('.slice')`);
  const first = performance.now() - began;
  console.log(`figure: first mosaic after ${first.toFixed(0)} ms`);
  must(first < 5000, 'the first mosaic is there');

  // Equal to /status, once nothing moves any more.
  await sleep(2200);
  const status = await json(`${url}status`);
  const shown = await page.value(rows);
  for (const service of status.services) {
    const row = shown[service.name];
    must(row && ['served', 'late', 'rejected', 'failed', 'waiting'].every(key => Number(row[key]) === service[key]),
         `the page equals /status for ${service.name}: ${JSON.stringify(row)}`);
  }
  const cuts = await page.value(tiles);
  for (const slice of status.slices) {
    const tile = cuts[slice.slice.replace(/#\d+$/, '')];
    must(tile && slice.serves.every(name => tile.service.split(' ').includes(name)), `the slice ${slice.slice} is shown`);
    must(['idle', 'busy'].includes(tile.state) === ['idle', 'busy'].includes(slice.status), `${slice.slice} is ${tile.state}`);
  }

  // A keyboard reaches slices, and one can be chosen.
  await page.value(`document.querySelector('.slice').focus()`);
  await page.press('Enter');
  await page.send('Input.dispatchKeyEvent', {type: 'char', text: '\r'});
  await page.value(`document.querySelector('.slice').click()`);
  must((await page.value(`document.getElementById('detail').textContent`)).includes('busy'), 'a chosen slice says what it does');

  // A worker dies.
  const victim = status.slices.find(slice => slice.process);
  if (victim) {
    process.kill(victim.process, 'SIGKILL');
    const took = await page.until(`[...document.querySelectorAll('#marks [data-kind=loss] .title')].some(t => t.textContent.includes(${
        JSON.stringify(victim.slice.replace(/#\d+$/, ''))}))`, 6000);
    console.log(`figure: a lost worker turned up after ${took.toFixed(0)} ms`);
    must(took < 2000, 'a lost worker turns up within 2 s');
    await page.until(`document.querySelector('#marks [data-kind=loss] dd:last-of-type')`, 3000);
  }

  // The past: the first frame had nothing served; the present has.
  const now = Number(await page.value(`document.body.dataset.frame`));
  await page.value(`(() => { const s = document.getElementById('slider'); s.value = s.min; s.dispatchEvent(new Event('input')); })()`);
  const then = Number(await page.value(`document.body.dataset.frame`));
  must(then < now, `the slider shows a past state (frame ${then} of ${now})`);
  const before = await page.value(rows);
  const sum = all => Object.values(all).reduce((total, row) => total + Number(row.served), 0);
  must(sum(before) < sum(shown), `less was served then: ${sum(before)} of ${sum(shown)}`);
  await page.value(`document.getElementById('live').click()`);
  must(Number(await page.value(`document.body.dataset.frame`)) >= now, 'and back to now');

  // Why: a request by the id of its client.
  await page.value(`document.getElementById('request-id').value = '0'`);
  await page.value(`document.getElementById('request-form').requestSubmit()`);
  await page.until(`document.getElementById('story').textContent.length > 20`, 5000);
  console.log(`figure: ${page.requests.filter(each => each.includes('/events')).length} looks at the events`);
  quiet(page, url);

  const answer = await fetch(url);
  const policy = answer.headers.get('content-security-policy');
  must(policy.includes("default-src 'none'") && !policy.includes('unsafe'), 'the policy is strict');
  console.log(`figure: the page has ${(await answer.text()).length} characters`);
}

async function withKey(browser, url, key) {
  const page = await browser.open(url);
  await page.until(`!document.getElementById('key-form').hidden`);
  must(!(await page.value(`Boolean(document.querySelector('.slice'))`)), 'nothing is shown without a key');
  await page.value(`document.getElementById('key').focus()`);
  await page.type('wrong');
  await page.value(`document.getElementById('key-form').requestSubmit()`);
  await sleep(1500);
  must(!(await page.value(`document.getElementById('key-form').hidden`)), 'a wrong key shows nothing');
  await page.value(`document.getElementById('key').focus()`);
  await page.type(key);
  await page.value(`document.getElementById('key-form').requestSubmit()`);
  await page.until(`${ready} && document.querySelector('.slice')`);
  must(true, 'the key of a viewer shows the fleet');
  const places = await page.value(
      `JSON.stringify([location.href, document.cookie, {...localStorage}, {...sessionStorage}, document.documentElement.outerHTML])`);
  must(!places.includes(key), 'the key is in no address, cookie, store or element');
  must(page.requests.every(each => !each.includes(key)), 'the key is in no request line');
  // Two denials are what was asked for; all else must be silent.
  page.problems = page.problems.filter(problem => !/401|403/.test(problem));
  quiet(page, url);
}

async function file(browser, path, texts) {
  const page = await browser.open(`file://${path}`);
  await page.until(`${ready} && document.querySelector('.slice')`);
  const marks = await page.value(`document.getElementById('marks').textContent`);
  for (const text of texts) must(marks.includes(text), `the marks say "${text}"`);
  must(await page.value(`Boolean(document.querySelector('#marks [data-kind=broken][open], #marks:not(:has([data-kind=broken]))'))`),
       'the first broken promise is open');
  const before = await page.value(`document.body.dataset.frame`);
  await page.value(`(() => { const s = document.getElementById('slider'); s.value = s.min; s.dispatchEvent(new Event('input')); })()`);
  must(await page.value(`document.body.dataset.frame`) !== before || before === '1', 'the slider moves');
  must(await page.value(`[...document.querySelectorAll('button, input, select')].every(each => each.textContent.trim() || each.getAttribute('aria-label') || each.labels?.length || each.closest('[hidden]'))`),
       'everything that can be used has a name');
  quiet(page, `file://${path}`);
}

async function shots(browser, url, prefix, at) {
  for (const [name, size] of Object.entries({
    light: {width: 1280, height: 1000}, dark: {width: 1280, height: 1000, dark: true}, phone: {width: 390, height: 844},
  })) {
    const page = await browser.open(url, size);
    await page.until('document.readyState === "complete"');
    await page.until(`${ready} || !document.getElementById('slider')`, 10000);
    if (at) await page.value(at);
    await sleep(1200);
    await page.screenshot(`${prefix}-${name}.png`, name !== 'phone');
  }
}

const browser = await Browser.launch(program);
let code = 0;
try {
  if (check === 'live') await live(browser, given[0]);
  else if (check === 'key') await withKey(browser, given[0], given[1]);
  else if (check === 'file') await file(browser, given[0], given.slice(1));
  else if (check === 'shots') await shots(browser, given[0], given[1], given[2]);
  else throw new Error(`unknown check ${check}`);
} catch (problem) {
  console.error(`FAILED: ${problem.message}`);
  code = 1;
}
await browser.close();
process.exit(code);
