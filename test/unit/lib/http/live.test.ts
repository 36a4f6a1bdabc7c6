import { Html, type View, markup, printPage, printTable } from '../../../../lib/http/html.ts';
import { createLivePages } from '../../../../lib/http/live.ts';
import { StatusServer } from '../../../../lib/http/pages.ts';
import { once } from 'node:events';
import { expect, test } from '@jest/globals';
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

async function ask(port: number | null, path: string, headers = {}): Promise<IncomingMessage> {
  const { promise, resolve } = Promise.withResolvers<IncomingMessage>();
  get({ host: '127.0.0.1', port, path, agent: false, headers }, resolve);
  return await promise;
}

test('viewers get all, then what changed within half a second; more than there is room for keep nobody out; another site gets no page', async () => {
  const clock = new FakeClock();
  const world = { state: 'ready', made: 0 };
  const make = (): View => {
    world.made += 1;
    return { title: '', program: '', sections: { answer: markup`${world.state}`, rest: markup`same` } };
  };
  const pages = createLivePages({ clock, read: () => Promise.resolve(make) });
  const quiet = { onProblem: () => undefined, onRecovered: () => undefined };
  const endpoint = { family: 'ipv4', address: '127.0.0.1', port: 0 } as const;
  const server = new StatusServer({ endpoint, pages, clock, ...quiet });
  await server.start();
  const viewers = [];
  for (let index = 0; index < 140; index += 1) viewers.push(await ask(server.port, '/live'));
  expect(viewers.filter(({ statusCode }) => statusCode === 503)).toHaveLength(12);
  const readNews = async () => {
    const [text] = (await once(viewers[9] ?? server, 'data')) as [Buffer];
    return (JSON.parse(/data: (.*)/.exec(String(text))?.[1] ?? '') as View).sections;
  };
  await once(viewers[9] ?? server, 'data');
  const first = readNews();
  await clock.advance(1);
  expect([await first, world.made]).toEqual([{ answer: 'ready', rest: 'same' }, 1]);
  world.state = 'dead';
  const second = readNews();
  await clock.advance(500);
  expect([await second, world.made]).toEqual([{ answer: 'dead' }, 2]);
  const hostToStatus = { 'rebound.example:1': 421, '127.0.0.1:1': 200, '[::1]:1': 200, localhost: 200 };
  for (const [host, status] of Object.entries(hostToStatus))
    expect([host, (await ask(server.port, '/', { host })).statusCode]).toEqual([host, status]);
  const { headers } = await ask(server.port, '/');
  expect(headers).toMatchObject({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' });
  expect(headers['content-security-policy']).toMatch(/^default-src 'none'; style-src 'sha256-/);
  await server.stop();
});
