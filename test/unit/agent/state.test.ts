import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { describe, test, expect } from '@jest/globals';
import { makeFolder } from '../../support/network/own-folder.ts';
import {
  createEndpointStore,
  type SavedEndpoints,
  formatEndpointFile,
  parseEndpointFile,
  recallApiservers,
} from '../../../agent/state.ts';
import { join } from 'node:path';
import { readdirSync, writeFileSync, symlinkSync, chmodSync, rmSync, readFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import { listTexts, type Host, nft } from './host.ts';
import { type Beginning, play } from './timeline.ts';
import { removeKubeProxy } from '../../support/kube-proxy/in-memory.ts';
import { VipnatError } from '../../../lib/errors.ts';
import { FakeStore } from '../../support/fakes/store.ts';

const toSaved = (...texts: string[]) => ({
  savedAt: '2026-11-21T15:04:05.678Z',
  endpoints: texts.map(toEndpoint),
});

describe('the store of the last known apiservers, in a folder', () => {
  const root = makeFolder('state');

  test('holds nothing before anything was saved, and makes nothing', async () => {
    expect([await createEndpointStore(join(root, 'none')).load(), readdirSync(root)]).toEqual([null, []]);
  });

  test('holds what was saved last, and leaves nothing else behind', async () => {
    const store = createEndpointStore(join(root, 'deep', 'er'));
    await store.save(toSaved('10.0.0.11:6443'));
    await store.save(toSaved('10.0.0.11:6443', '10.0.0.12:6443'));
    expect(await store.load()).toEqual(toSaved('10.0.0.11:6443', '10.0.0.12:6443'));
    expect(readdirSync(join(root, 'deep', 'er'))).toEqual(['endpoints.json']);
  });

  test('says what else is in its place, reads none of it, and replaces it', async () => {
    const folder = join(root, 'planted');
    const store = createEndpointStore(folder);
    const plants = {
      'is cut off, or is not a file of vipnat': 'printf "{" >"$FILE"',
      'is too large for a file of vipnat': 'head -c 100000 /dev/zero >"$FILE"',
      'is not a regular file': 'mkfifo "$FILE"',
      'is a link, which vipnat does not follow': 'ln -s ../elsewhere "$FILE"',
      'because it has mode 0666': 'chmod 666 "$FILE"',
      'because its folder has mode 01777': 'chmod 1777 "$(dirname "$FILE")"',
      ...(process.getuid?.() === 0 && { 'because it belongs to user 65534': 'chown 65534 "$FILE"' }),
    };
    await createEndpointStore(root).save(toSaved('10.0.0.13:6443'));
    symlinkSync('endpoints.json', join(root, 'elsewhere'));
    for (const [problem, plant] of Object.entries(plants)) {
      await store.save(toSaved('10.0.0.11:6443'));
      if (!problem.startsWith('because ')) rmSync(store.location);
      execFileSync('sh', ['-ec', plant], { env: { ...process.env, FILE: store.location } });
      await expect(store.load()).rejects.toMatchObject({
        code: 'STATE_UNREADABLE',
        message: expect.stringContaining(
          `${store.location}${problem.startsWith('because ') ? ', ' : ' '}${problem}. vipnat ignores this file, and replaces it when it knows the apiservers`,
        ),
      });
      await store.save(toSaved('10.0.0.12:6443'));
      chmodSync(folder, 0o755);
      expect(await store.load()).toEqual(toSaved('10.0.0.12:6443'));
    }
    expect(await createEndpointStore(root).load()).toEqual(toSaved('10.0.0.13:6443'));
  });

  test('says that it cannot write, and what was there stays', async () => {
    writeFileSync(join(root, 'file'), 'somebody’s');
    await expect(
      createEndpointStore(join(root, 'file')).save(toSaved('10.0.0.11:6443')),
    ).rejects.toMatchObject({
      code: 'STATE_NOT_WRITTEN',
      message: expect.stringContaining(`writing ${join(root, 'file', 'endpoints.json')} failed (EEXIST)`),
    });
    expect(readFileSync(join(root, 'file'), 'utf8')).toBe('somebody’s');
  });
});

const savedFile: SavedEndpoints = {
  savedAt: '2026-11-21T15:04:05.678Z',
  endpoints: ['10.0.0.11:6443', '10.0.0.12:6443', '[fd00::13]:6443'].map(toEndpoint),
};
const text = formatEndpointFile(savedFile);

/** A file with a right checksum, whatever it says: as somebody would make it who knows how. */
function forge(endpoints: readonly string[]): string {
  return formatEndpointFile({
    savedAt: savedFile.savedAt,
    endpoints: endpoints.map((address) => ({ family: 'ipv4', address, port: 6443 })),
  });
}

const notOurs = 'is not a file of vipnat';
const nobodyAt = (address: string) => `names "${address}:6443", which cannot be the address of an apiserver`;
const edited = text.replace('10.0.0.12', '10.0.0.66');
const foreign = ['null', '[]', '"text"', '{}', '{"version":1}', '{"version":0}'];
const unfit = '0.0.0.0 127.0.0.1 169.254.1.1 224.0.0.1 255.255.255.255 m1.example'.split(' ');
const wrong = [...unfit, '10.0.0.1 -j ACCEPT'];
const loopback = { family: 'ipv4', address: '127.0.0.1', port: 6443 } as const;
const many = Array.from({ length: 101 }, (_, index) => `10.0.1.${index}`);

describe('the file of the last known apiservers', () => {
  test('says who was an apiserver before', () => {
    const former = [toEndpoint('10.0.0.9:6443')];
    expect(parseEndpointFile(formatEndpointFile({ ...savedFile, former }))).toEqual({ ...savedFile, former });
  });

  test('cut off anywhere, it says nothing', () => {
    for (let length = 1; length < text.length; length += 1)
      expect(parseEndpointFile(text.slice(0, length))).toBe('is cut off, or is not a file of vipnat');
  });

  test.each<readonly [string, string, string]>([
    ['empty', '', 'is empty'],
    ['edited', edited, 'is damaged or was edited: its checksum does not match'],
    ['of a newer version', '{"version":2,"anything":true}\n', 'is from a newer vipnat (version 2)'],
    ...foreign.map((json) => [json, `${json}\n`, notOurs] as const),
    // Whoever makes one of these knows the checksum.
    ['of more than anybody runs', forge(many), notOurs],
    ['of nobody', forge([]), notOurs],
    ['with a former one', formatEndpointFile({ ...savedFile, former: [loopback] }), nobodyAt('127.0.0.1')],
    ...wrong.map((address) => [address, forge(['10.0.0.11', address]), nobodyAt(address)] as const),
  ])('is refused: %s', (_, content, complaint) => {
    expect(parseEndpointFile(content)).toBe(complaint);
  });
});

const three = listTexts('m1 m2 m3').map(toEndpoint);
const two = three.slice(0, 2);
const savedAt = '2026-11-21T15:04:05.678Z';

/** What an earlier agent has saved. */
const saved = (endpoints: typeof three) => ({
  prepare: ({ store }: Host) => void store.save({ savedAt, endpoints }),
});

describe('the apiservers that were last known', () => {
  test.each<[string, string, Beginning]>([
    [
      'are balanced over after a reboot, with neither API nor kube-proxy, and not saved again',
      'before; start; wait 2000; targets m1 m2 m3; saved m1 m2 m3',
      saved(three),
    ],
    [
      // The third is warmed up first.
      'give way to what kube-proxy has, as soon as it has any',
      'before; start; wait 2000; targets m1 m2; proxy m1 m2 m3; wait 10000; targets proxy; saved m1 m2, m1 m2 m3',
      saved(two),
    ],
    [
      'are saved as given by --endpoints where there is no kube-proxy',
      'before; start; wait 120000; saved m1 m2 m3; targets m1 m2 m3',
      { config: { endpoints: three } },
    ],
    ['are of kube-proxy, not --endpoints', 'wait 120000; saved m1 m2 m3', { config: { endpoints: two } }],
    [
      'given by --endpoints are saved as far as they can be apiservers',
      'before; start; wait 2000; saved m1 m2',
      { config: { endpoints: [...two, toEndpoint('127.0.0.1:6443')] } },
    ],
  ])('%s', async (_, timeline, beginning) => {
    await play(timeline, beginning);
  });

  test('are saved once, again when kube-proxy has others, and not when it is gone', async () => {
    const { clock, kernel, ...host } = await play('wait 120000; saved m1 m2 m3; proxy m1 m2; wait 2000');
    // Its first try fails, as our jump pins its chain, and makes us let go.
    expect(() => {
      removeKubeProxy(kernel, nft);
    }).toThrow(VipnatError);
    await clock.advance(2000);
    removeKubeProxy(kernel, nft);
    await clock.advance(120_000);
    expect(host.store.saves.map(({ endpoints }) => endpoints)).toEqual([three, two]);
  });

  test('are saved anew within two minutes of their loss, and that is said', async () => {
    const host = await play('wait 120000');
    const { store, clock } = host;
    store.saves.splice(0);
    await clock.advance(130_000);
    expect(host.saves).toEqual(['m1 m2 m3']);
    expect(host.lines('warn')).toEqual([
      'another program removed or changed /var/lib/vipnat/endpoints.json. vipnat writes the file again',
    ]);
    store.saves.push({ savedAt, endpoints: two });
    await clock.advance(130_000);
    expect(host.saves.at(-1)).toBe('m1 m2 m3');
    let loads = 0;
    store.load = () => new Promise(() => (loads += 1));
    await clock.advance(600_000);
    expect(loads).toBe(1);
  });

  test('are named with the file and its age as the reason', async () => {
    const store = new FakeStore();
    const sixth = toEndpoint('[fd00::11]:6443');
    await store.save({ savedAt, endpoints: [...three, sixth] });
    const seenIn = '/var/lib/vipnat/endpoints.json of 2026-11-21 15:04';
    const { endpoints } = await recallApiservers(store, (problem) => {
      throw problem;
    });
    expect(endpoints).toEqual({ ipv4: { value: three, seenIn }, ipv6: { value: [sixth], seenIn } });
  });

  test('of a torn file count for nothing, and that is said', async () => {
    const store = new FakeStore();
    store.problem = new VipnatError('STATE_UNREADABLE', 'it is torn');
    const problems: VipnatError[] = [];
    const recalled = await recallApiservers(store, (problem) => problems.push(problem));
    expect(recalled).toEqual({ endpoints: {}, previousEndpoints: {} });
    expect(problems).toEqual([store.problem]);
  });

  test('that cannot be read any more in a folder that cannot be written are said to be lost once', async () => {
    const host = await play('wait 120000');
    host.store.problem = new VipnatError('STATE_NOT_WRITTEN', 'the disk is broken');
    await host.clock.advance(600_000);
    expect(host.lines('warn')).toHaveLength(2);
  });
});

test('a folder that cannot be written is said once and tried once a minute; everything else works', async () => {
  const problem = new VipnatError('STATE_NOT_WRITTEN', 'the disk is full');
  const host = await play('wait 595000; hooked; 1 line of warn .; 1 line of warn ^the disk is full$', {
    prepare: ({ store }) => void (store.problem = problem),
  });
  expect(host.store.attempts).toBeGreaterThan(5);
  expect(host.store.attempts).toBeLessThanOrEqual(11);
  host.store.problem = null;
  await host.clock.advance(120_000);
  expect(host.saves).toEqual(['m1 m2 m3']);
  expect(host.lines('info').at(-1)).toBe('vipnat can write /var/lib/vipnat/endpoints.json again');
});
