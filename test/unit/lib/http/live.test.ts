import { Html, type View, markup, printPage, printTable } from '../../../../lib/http/html.ts';
import { createLivePages } from '../../../../lib/http/live.ts';
import { StatusServer } from '../../../../lib/http/pages.ts';
import { afterAll, expect, test } from '@jest/globals';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { type IncomingMessage, get } from 'node:http';

const hostile = `"'\`<script>alert(1)</script>&amp;\u202e${'</style>'}`;

test('what is no HTML is escaped wherever it may be, and HTML is not', () => {
  const now = new Date(0);
  const table = printTable(hostile, [hostile], [{ cells: [hostile], below: [hostile] }]).text;
  const all = printPage({ title: hostile, program: hostile, sections: { answer: new Html(table) } }, now);
  const fine = printPage({ title: 'x', program: 'x', sections: { answer: new Html('') } }, now);
  const countTags = (text: string) => (text.match(/<\/?(?:script|style)>/g) ?? []).length;
  expect([countTags(all), all.includes('\u202e')]).toEqual([countTags(fine), false]);
  expect(markup`<a title="${hostile}">${[null, 1, markup`<b>${'<'}</b>`]}</a>`.text).toBe(
    '<a title="&#34;&#39;&#96;&#60;script&#62;alert(1)&#60;/script&#62;&#38;amp;\\u202e&#60;/style&#62;">1<b>&#60;</b></a>',
  );
});

const clock = new FakeClock();
const world = { state: 'ready', made: 0 };
const read = (query: string) =>
  Promise.resolve((): View => {
    world.made += 1;
    const sections = { answer: markup`${query}${world.state}`, rest: markup`same` };
    return { title: world.state, program: 'x', sections };
  });
const pages = createLivePages({ clock, read });
const quiet = { onProblem: () => undefined, onRecovered: () => undefined };
const endpoint = { family: 'ipv4', address: '127.0.0.1', port: 0 } as const;
const server = new StatusServer({ endpoint, pages, clock, ...quiet });
afterAll(() => server.stop());

async function ask(path: string, headers = {}): Promise<IncomingMessage> {
  const { promise, resolve } = Promise.withResolvers<IncomingMessage>();
  get({ host: '127.0.0.1', port: server.port, path, agent: false, headers }, resolve);
  return await promise;
}

/** What a viewer has got, each as its sections. */
async function follow(): Promise<{ status: number | undefined; news: string[] }> {
  const response = await ask('/live');
  const news: string[] = [];
  response.setEncoding('utf8').on('error', () => undefined);
  response.on('data', (text: string) => {
    for (const [, json = ''] of text.matchAll(/^data: (.*)$/gm))
      news.push(JSON.stringify((JSON.parse(json) as { sections: object }).sections));
  });
  return { status: response.statusCode, news };
}

const turn = () => new Promise((resolve) => setTimeout(resolve, 20));

test('viewers get all first, then what changed, within half a second, from one view for all', async () => {
  await server.start();
  const viewers = await Promise.all([follow(), follow(), follow()]);
  const until = async (count: number) => {
    while (viewers.some(({ news }) => news.length < count)) await turn();
  };
  await clock.advance(1);
  await until(1);
  const before = world.made;
  world.state = 'dead';
  await clock.advance(500);
  await until(2);
  const all = ['{"answer":"ready","rest":"same"}', '{"answer":"dead"}'];
  expect([viewers.map(({ news }) => news), world.made - before]).toEqual([[all, all, all], 1]);
});

test('more viewers than there is room for keep nobody else out, and another site gets no page', async () => {
  const viewers = [];
  for (let index = 0; index < 140; index += 1) viewers.push(await follow());
  expect(viewers.filter(({ status }) => status === 503)).toHaveLength(140 + 3 - 128);
  const hostToStatus = { 'rebound.example:10268': 421, '127.0.0.1:1': 200, '[::1]:1': 200, localhost: 200 };
  for (const [host, status] of Object.entries(hostToStatus)) {
    const { statusCode, headers } = await ask('/', { host });
    expect([host, statusCode]).toEqual([host, status]);
    expect(headers).toMatchObject({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' });
    if (status === 200)
      expect(headers['content-security-policy']).toMatch(/^default-src 'none'; style-src 'sha256-/);
  }
});
