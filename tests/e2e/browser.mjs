// A headless Chromium, driven over the DevTools protocol through a pipe, without any package: messages are JSON with a
// zero byte behind each, on the browser's file descriptors 3 (to it) and 4 (from it).

import {spawn} from 'node:child_process';
import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

export const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));

export class Browser {
  static async launch(program) {
    const browser = new Browser();
    browser.profile = mkdtempSync(join(tmpdir(), 'tangram-page-'));
    browser.process = spawn(program, [
      '--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--mute-audio',
      '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-extensions',
      '--remote-debugging-pipe', `--user-data-dir=${browser.profile}`, 'about:blank',
    ], {stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe']});
    browser.waiting = new Map();
    browser.next = 1;
    browser.listeners = [];
    let rest = '';
    browser.process.stdio[4].on('data', bytes => {
      rest += bytes;
      const messages = rest.split('\0');
      rest = messages.pop();
      for (const text of messages) browser.take(JSON.parse(text));
    });
    browser.process.on('exit', () => {
      for (const {reject} of browser.waiting.values()) reject(new Error('the browser has ended'));
    });
    return browser;
  }

  take(message) {
    if (message.id) {
      const {resolve, reject} = this.waiting.get(message.id);
      this.waiting.delete(message.id);
      return message.error ? reject(new Error(message.error.message)) : resolve(message.result);
    }
    for (const listen of this.listeners) listen(message);
  }

  send(method, params = {}, sessionId) {
    const id = this.next++;
    this.process.stdio[3].write(JSON.stringify({id, method, params, sessionId}) + '\0');
    return new Promise((resolve, reject) => this.waiting.set(id, {resolve, reject}));
  }

  async open(url, {width = 1280, height = 900, dark = false} = {}) {
    const {targetId} = await this.send('Target.createTarget', {url: 'about:blank'});
    const {sessionId} = await this.send('Target.attachToTarget', {targetId, flatten: true});
    const page = new Page(this, sessionId, targetId);
    this.listeners.push(message => { if (message.sessionId === sessionId) page.hear(message); });
    for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await page.send(`${domain}.enable`);
    await page.send('Emulation.setDeviceMetricsOverride', {width, height, deviceScaleFactor: 1, mobile: width < 600});
    await page.send('Emulation.setEmulatedMedia',
                    {features: [{name: 'prefers-color-scheme', value: dark ? 'dark' : 'light'}]});
    if (url) await page.go(url);
    return page;
  }

  async close() {
    await Promise.race([this.send('Browser.close').catch(() => {}), sleep(2000)]);
    if (this.process.exitCode === null) {
      this.process.kill('SIGKILL');
      await sleep(100);
    }
    rmSync(this.profile, {recursive: true, force: true, maxRetries: 5});
  }
}

export class Page {
  constructor(browser, sessionId, targetId) {
    Object.assign(this, {browser, sessionId, targetId, problems: [], requests: []});
  }
  send(method, params) { return this.browser.send(method, params, this.sessionId); }

  hear({method, params}) {
    if (method === 'Runtime.exceptionThrown') {
      this.problems.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    } else if (method === 'Log.entryAdded' && params.entry.level === 'error') {
      this.problems.push(`${params.entry.text} ${params.entry.url ?? ''}`);
    } else if (method === 'Runtime.consoleAPICalled' && (params.type === 'error' || params.type === 'warning')) {
      this.problems.push(params.args.map(arg => arg.value ?? arg.description).join(' '));
    } else if (method === 'Network.requestWillBeSent') {
      this.requests.push(params.request.url);
    }
  }

  async go(url) {
    this.began = performance.now();
    await this.send('Page.navigate', {url});
  }

  // The value of an expression in the page.
  async value(expression) {
    const {result, exceptionDetails} = await this.send('Runtime.evaluate', {expression, returnByValue: true, awaitPromise: true});
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  // Milliseconds until the expression is true, or an error.
  async until(expression, milliseconds = 10000) {
    const began = performance.now();
    for (;;) {
      if (await this.value(`Boolean(${expression})`).catch(() => false)) return performance.now() - began;
      if (performance.now() - began > milliseconds) throw new Error(`not true after ${milliseconds} ms: ${expression}`);
      await sleep(15);
    }
  }

  async press(key, code = key) {
    for (const type of ['keyDown', 'keyUp']) await this.send('Input.dispatchKeyEvent', {type, key, code});
  }
  async type(text) { await this.send('Input.insertText', {text}); }

  async screenshot(path, full = false) {
    const clip = full ? await this.value(
        '({x: 0, y: 0, width: document.documentElement.clientWidth, height: document.documentElement.scrollHeight, scale: 1})')
                      : undefined;
    const {data} = await this.send('Page.captureScreenshot', {format: 'png', clip, captureBeyondViewport: full});
    writeFileSync(path, Buffer.from(data, 'base64'));
  }
}
