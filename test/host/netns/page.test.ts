import { vips } from '../../support/network/layout.ts';
import { endpoints, useProxiedCluster } from './traffic.ts';
import { startAgent } from '../../support/host/vipnat.ts';
import { makeFolder } from '../../support/network/own-folder.ts';
import { expect, test } from '@jest/globals';
import puppeteer, { type Browser, type Page } from 'puppeteer-core';
import { readFileSync } from 'node:fs';

const cluster = useProxiedCluster('each test');
const profile = makeFolder('browser');
const origin = 'http://127.0.0.1:10268';
const options = ['--vip', vips.ipv4, '--endpoints', endpoints, '--listen', '[::]:10268'];

const evaluate = async <T>(page: Page, script: string) => (await page.evaluate(script)) as T;

/** A tab that notes what its page asks for elsewhere, and each error. */
async function openTab(browser: Browser, seen: string[], hasJavaScript: boolean): Promise<Page> {
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

test('the page has all without JavaScript; with it, it shows a death and a lost agent by itself, accessible at each width', async () => {
  const agent = await startAgent(cluster, 'm1', options);
  await startAgent(cluster, 'm2', options);
  const words = ['--headless', '--no-sandbox', '--remote-debugging-pipe', `--user-data-dir=${profile}`];
  const browser = await puppeteer.launch({
    ...{ executablePath: '/usr/bin/env', pipe: true, ignoreDefaultArgs: true },
    args: ['ip', 'netns', 'exec', cluster.namespaceOf('m1'), 'chromium', ...words],
  });
  const seen: string[] = [];
  const text = await evaluate(await openTab(browser, seen, false), 'document.body.innerText');
  expect(text).toMatch(
    /Balanced over 3 apiservers\s+held by \S+ \(this node\)\s+mode service-chain\s+in sync/,
  );
  expect(text).toMatch(/10\.77\.0\.13:6443\s+ready\s+\d\d:\d\d:\d\d UTC\s+0/);
  const unasked = String.raw`no agent of this VIP answers at 10\.77\.0\.13:10268\. That says nothing of its apiserver`;
  const last = '[^]*What happened last[^]*this node holds 10.77.0.50';
  expect(text).toMatch(new RegExp(String.raw`\(10\.77\.0\.12\)\s+not here[^]*${unasked}${last}`));
  const page = await openTab(browser, seen, true);
  for (const [width, value] of Object.entries({ 400: 'light', 1400: 'dark' })) {
    await page.setViewport({ width: Number(width), height: 900 });
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value }]);
    expect(await evaluate(page, 'document.documentElement.scrollWidth <= innerWidth')).toBe(true);
    const back = await evaluate(page, 'getComputedStyle(document.body).backgroundColor');
    expect(back).toBe(value === 'light' ? 'rgb(251, 251, 252)' : 'rgb(17, 20, 24)');
    await page.evaluate(readFileSync('node_modules/axe-core/axe.min.js', 'utf8'));
    expect(await evaluate(page, 'axe.run().then(({ violations }) => JSON.stringify(violations))')).toBe('[]');
  }
  await page.waitForFunction("document.getElementById('live').textContent === 'Live'");
  await cluster.apiserver('m3').kill();
  await page.waitForFunction("document.title.includes('Balanced over 2 of 3 apiservers')");
  expect(seen).toEqual([]);
  await agent.stop();
  await page.waitForFunction("document.getElementById('live').textContent.startsWith('Connection lost')");
  await browser.close();
});
