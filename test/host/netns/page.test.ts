import { vips } from '../../support/network/layout.ts';
import { endpoints, useProxiedCluster } from './traffic.ts';
import { type Agent, startAgent } from '../../support/host/vipnat.ts';
import { makeFolder } from '../../support/network/own-folder.ts';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import puppeteer, { type Browser, type Page } from 'puppeteer-core';
import { readFileSync } from 'node:fs';

let browser: Browser;
afterAll(() => browser.close());
const cluster = useProxiedCluster('all tests');
const profile = makeFolder('browser');
const axe = readFileSync('node_modules/axe-core/axe.min.js', 'utf8');
const origin = 'http://127.0.0.1:10268';
const options = ['--vip', vips.ipv4, '--endpoints', endpoints, '--listen', '[::]:10268'];
const seen: string[] = [];
let agent: Agent;

beforeAll(async () => {
  agent = await startAgent(cluster, 'm1', options);
  await startAgent(cluster, 'm2', options);
  const words = ['--headless', '--no-sandbox', '--remote-debugging-pipe', `--user-data-dir=${profile}`];
  browser = await puppeteer.launch({
    ...{ executablePath: '/usr/bin/env', pipe: true, ignoreDefaultArgs: true },
    args: ['ip', 'netns', 'exec', cluster.namespaceOf('m1'), 'chromium', ...words],
  });
}, 60_000);

/** A tab that notes what its page asks for elsewhere, and each error. */
async function openTab(hasJavaScript: boolean): Promise<Page> {
  const page = await browser.newPage();
  await page.setJavaScriptEnabled(hasJavaScript);
  page.on('console', (line) => seen.push(`${line.type()}: ${line.text()}`));
  page.on('pageerror', (error) => seen.push(String(error)));
  page.on('request', (request) => {
    if (!request.url().startsWith(`${origin}/`) && request.url() !== 'data:,') seen.push(request.url());
  });
  await page.goto(`${origin}/`);
  return page;
}

const evaluate = async <T>(page: Page, script: string) => (await page.evaluate(script)) as T;
const readText = (page: Page) => evaluate<string>(page, 'document.body.innerText');

test('the page has all without JavaScript, and asks the other masters that it can', async () => {
  const text = await readText(await openTab(false));
  expect(text).toMatch(
    /Balanced over 3 apiservers\s+held by \S+ \(this node\)\s+mode service-chain\s+in sync/,
  );
  expect(text).toMatch(/10\.77\.0\.13:6443\s+ready\s+\d\d:\d\d:\d\d UTC\s+0/);
  expect(text).toMatch(/\(10\.77\.0\.12\)\s+not here/);
  expect(text).toMatch(
    /no agent of this VIP answers at 10\.77\.0\.13:10268\. That says nothing of its apiserver/,
  );
  expect(text).toMatch(/What happened last[^]*this node holds 10\.77\.0\.50/);
});

test('it is usable in light and dark at each width, asks nobody else, and shows a death and a lost agent by itself', async () => {
  const page = await openTab(true);
  const backs = new Set<string>();
  for (const [width, value] of [
    [400, 'light'],
    [1400, 'dark'],
  ] as const) {
    await page.setViewport({ width, height: 900 });
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value }]);
    expect(await evaluate(page, 'document.documentElement.scrollWidth <= innerWidth')).toBe(true);
    backs.add(await evaluate(page, 'getComputedStyle(document.body).backgroundColor'));
    await page.evaluate(axe);
    const found = await evaluate<{ violations: { id: string; nodes: { html: string }[] }[] }>(
      page,
      'axe.run()',
    );
    expect(found.violations.map(({ id, nodes }) => [id, nodes[0]?.html])).toEqual([]);
  }
  expect(backs.size).toBe(2);
  await page.waitForFunction("document.getElementById('live').textContent === 'Live'");
  await cluster.apiserver('m3').kill();
  await page.waitForFunction("document.title.includes('Balanced over 2 of 3 apiservers')");
  expect(seen).toEqual([]);
  await agent.stop();
  await page.waitForFunction("document.getElementById('live').textContent.startsWith('Connection lost')");
});
