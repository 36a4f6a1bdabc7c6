import { Html, type View, markup, printPage, printTable } from '../../../../lib/http/html.ts';
import { createLivePages } from '../../../../lib/http/live.ts';
import { StatusServer } from '../../../../lib/http/pages.ts';
import { expect, test } from '@jest/globals';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { type IncomingMessage, get } from 'node:http';
import { once } from 'node:events';

test('what is no HTML is escaped wherever it may be', () => {
  const hostile = `"'\`</script></style><script>&amp;\u202e`;
  const countTags = (text: string) => {
    const answer = printTable(text, [text], [{ cells: [text], below: [markup`<a title="${text}"></a>`] }]);
    const page = printPage({ title: text, program: text, sections: { answer } }, new Date(0));
    return [
      page.match(/<\/?(?:script|style)>/g)?.length,
      page.includes('\u202e'),
      page.includes(`="${text}`),
    ];
  };
  expect(countTags(hostile)).toEqual([...countTags('x').slice(0, 2), false]);
  expect(markup`${hostile}${[null, 1, new Html('<b>')]}`.text).toBe(
    '&#34;&#39;&#96;&#60;/script&#62;&#60;/style&#62;&#60;script&#62;&#38;amp;\\u202e1<b>',
  );
});

async function ask(
  port: number | null,
  path: string,
  headers = {},
  localAddress = '127.0.0.1',
): Promise<IncomingMessage> {
  const { promise, resolve } = Promise.withResolvers<IncomingMessage>();
  get({ host: '127.0.0.1', port, path, agent: false, headers, localAddress }, resolve);
  return await promise;
}

test('viewers get all, then news within half a second; too many keep nobody out; another site gets no page', async () => {
  const [clock, source] = [new FakeClock(), { state: 'ready', made: 0 }];
  const make = (): View => {
    source.made += 1;
    return { title: '', program: '', sections: { answer: markup`${source.state}`, rest: markup`same` } };
  };
  const pages = createLivePages({ clock, read: () => Promise.resolve(make) });
  const endpoint = { family: 'ipv4', address: '127.0.0.1', port: 0 } as const;
  const quiet = { onProblem: () => undefined, onRecovered: () => undefined };
  const server = new StatusServer({ endpoint, pages, clock, ...quiet });
  await server.start();
  const viewer = await ask(server.port, '/live');
  const statuses: unknown[] = [];
  for (let count = 1; count < 9 * 17; count += 1)
    statuses.push((await ask(server.port, '/live', {}, `127.0.0.${Math.floor(count / 17) + 1}`)).statusCode);
  expect(statuses.filter((status) => status === 503)).toHaveLength(8 + 17);
  await once(viewer, 'data');
  const expectNews = async (waitMs: number, sections: object, made: number) => {
    const data = once(viewer, 'data');
    await clock.advance(waitMs);
    const text = String(await data);
    expect([JSON.parse(text.slice(text.indexOf('{'))), source.made]).toMatchObject([{ sections }, made]);
  };
  await expectNews(1, { answer: 'ready', rest: 'same' }, 1);
  source.state = 'dead';
  await expectNews(500, { answer: 'dead' }, 2);
  clock.stall(1000);
  const questions = ['1', '2', '3'].map(async (q) => await pages.get('/')?.(new URLSearchParams({ q })));
  await clock.advance(1);
  await Promise.all(questions);
  expect(source.made).toBe(3);
  const hostToStatus = { 'rebound.example:1': 421, '127.0.0.1:1': 200, '[::1]:1': 200, localhost: 200 };
  for (const [host, status] of Object.entries(hostToStatus))
    for (const browser of [{ 'accept-language': 'en' }, {}]) {
      const { statusCode } = await ask(server.port, '/', { host, ...browser });
      expect([host, statusCode]).toEqual([host, 'accept-language' in browser ? status : 200]);
    }
  const policy = expect.stringMatching(/^default-src 'none'; style-src 'sha256-/);
  expect((await ask(server.port, '/')).headers).toMatchObject({ 'content-security-policy': policy });
  const end = once(viewer, 'end');
  await clock.advance(60_000);
  await end;
  await server.stop();
});
