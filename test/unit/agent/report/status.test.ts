import type { FakeKernel } from '../../../support/fakes/kernel.ts';
import { restoreCaptures, lookOnce } from '../../../support/agent/captured-host.ts';
import {
  type HostStatus,
  toHostStatus,
  formatStatusJson,
  isInTrouble,
} from '../../../../agent/report/status.ts';
import { ordinaryConfig } from '../../../support/agent/running-agent.ts';
import { describe, test, expect } from '@jest/globals';
import { formatStatus } from '../../../../cli/commands/status.ts';
import { formatCheck } from '../../../../cli/commands/check.ts';
import { plainScreen } from '../../../../cli/output.ts';
import { applyPlan } from '../../../../agent/sync.ts';
import { findWire } from '../../../../lib/keepalived/read.ts';
import { findNamedFile } from '../../../../lib/keepalived/configuration.ts';

const dead = { state: 'dead', reason: 'connection refused', staleConnections: 'none' } as const;
const three = '10.77.0.11:6443 10.77.0.12:6443 10.77.0.13:6443'.split(' ');

/** A host on which kube-proxy runs in iptables mode, and this one holds the VIP and an apiserver. */
function createHost(captures = ['iptables-nft-save.three-endpoints.txt']): FakeKernel {
  const kernel = restoreCaptures(captures);
  for (const address of ['10.0.0.50', '10.77.0.11'])
    kernel.addAddress({ family: 'ipv4', address, device: 'eth0' });
  return kernel;
}

/** What is told where an agent has run for three days, and one apiserver died 12 s ago. */
async function read(kernel: FakeKernel, isAgentRunning = true): Promise<HostStatus> {
  const assessment = await lookOnce(kernel, ordinaryConfig);
  const found = { ...assessment, health: new Map([[three[2] ?? '', dead]]) };
  return toHostStatus(found, {
    agent: isAgentRunning ? { version: '0.1.0', pid: 812, since: '2026-01-01T00:00:00.000Z' } : null,
    activity: isAgentRunning
      ? { writes: 2, syncedMsAgo: 40, apiservers: { [three[2] ?? '']: { forMs: 12_000 } } }
      : null,
    flows: new Map([['10.0.0.50:6443', new Map([[three[0] ?? '', 41]])]]),
    keepalived: new Map([['10.0.0.50', { isRunning: true, instance: { vrid: 51, priority: 110 } }]]),
  });
}

/** What is told without connections, by what probes found. */
async function readBare(kernel: FakeKernel, more: Partial<Parameters<typeof toHostStatus>[1]> = {}) {
  const { assessment, ...status } = await read(kernel);
  const found = { ...status, flows: new Map(), keepalived: new Map(), ...more };
  return (health: HostStatus['assessment']['health']) => toHostStatus({ ...assessment, health }, found);
}

/** Nothing but the assessment. */
const findings = { drops: [], unread: [], config: ordinaryConfig, agent: null, flags: '--vip=10.0.0.50' };

describe('one screen', () => {
  const since = new Date('2026-11-23T10:00:00.000Z');
  test.each<[string, HostStatus['drain'], RegExp]>([
    ['is not drained', null, /^(?!.*drained)/],
    [
      'is drained since when, and what ends that',
      { since, vipStaysSince: null },
      / drained since 2026-11-23T10:00:00\.000Z · no new connections .* vipnat undrain ends it /,
    ],
    ['may keep the VIP', { since, vipStaysSince: since }, /the VIP may stay: no other host took it/],
  ])('says that the host %s; JSON too', async (_, drain, words) => {
    const status = { ...(await read(createHost())), drain };
    expect(formatStatus(status).replaceAll(/\s+/g, ' ')).toMatch(words);
    expect(JSON.parse(formatStatusJson(status, 'm1', since))).toMatchObject({
      drainedSince: drain?.since.toISOString() ?? null,
      vipStaysSince: drain?.vipStaysSince?.toISOString() ?? null,
    });
  });

  test('has shares of new connections while they differ; JSON has them always', async () => {
    const status = await read(createHost());
    expect(formatStatus(status)).not.toContain('SHARE');
    const share = [0.25, 0.75, 0];
    const shared = status.vips.map((vip) => ({
      ...vip,
      backends: vip.backends.map((one, at) => ({ ...one, share: share[at] ?? null })),
    }));
    const text = formatStatus({ ...status, vips: shared });
    expect(text).toMatch(/^ +APISERVER .* FLOWS {2}SHARE {2}WHY$/m);
    expect(text).toMatch(/^ +10\.77\.0\.12:6443 .* 0 {3}75 %$/m);
    const json = formatStatusJson({ ...status, vips: shared }, 'm1', new Date());
    expect(JSON.parse(json)).toMatchObject({ vips: [{ backends: share.map((one) => ({ share: one })) }] });
  });

  test('has the answer first, then why, each apiserver, and who keeps it so; as JSON, too', async () => {
    const kernel = createHost();
    await applyPlan(kernel, (await lookOnce(kernel, ordinaryConfig)).plan);
    kernel.sourceRoutes = [{ address: '10.0.0.50', device: 'eth0', source: '10.77.0.11' }];
    const status = await read(kernel);
    expect(formatStatus(status)).toBe(`10.0.0.50:6443   held by this node · service-chain · in sync
  because kube-proxy sends 10.96.0.1 to the same 3 apiservers (nat KUBE-SERVICES (iptables-nft))

  APISERVER          STATE  SINCE  FLOWS  WHY
  10.77.0.11:6443 *  ready            41
  10.77.0.12:6443    ready             0
  10.77.0.13:6443    dead   12 s       0  connection refused

keepalived  MASTER · vrid 51 · priority 110
agent       running, pid 812, since 2026-01-01T00:00:00.000Z · last sync 40 ms ago · 2 writes
this host   connects to 10.0.0.50:6443 from 10.77.0.11
kube-proxy  iptables (nft), nat KUBE-SERVICES (iptables-nft)
drift       none
* this node
`);
    const now = new Date('2026-01-04T00:00:00.000Z');
    const answer = JSON.parse(formatStatusJson(status, 'm1', now)) as object;
    expect(answer).toMatchObject({
      ...{ version: 1, node: 'm1', inSync: true },
      agent: { running: true, pid: 812, since: '2026-01-01T00:00:00.000Z' },
      vips: [
        {
          ...{ vip: '10.0.0.50:6443', held: true, mode: 'service-chain' },
          backends: [
            { address: three[0], local: true, state: 'ready', reason: '', since: null, flows: 41 },
            { address: three[1], local: false, state: 'ready', reason: '', since: null, flows: 0 },
            { address: three[2], state: 'dead', since: '2026-01-03T23:59:48.000Z', flows: 0 },
          ],
          keepalived: { running: true, vrid: 51, state: 'MASTER', priority: 110 },
        },
      ],
    });
    expect(answer).not.toHaveProperty('transactions');
    // Nothing is wrong with the rules: a monitor that goes by the exit status hears of the apiserver.
    expect(isInTrouble(status)).toBe(true);
    const drained = { ...dead, state: 'draining', isDrained: true } as const;
    for (const one of [{ ...dead, state: 'warming' } as const, drained]) {
      const health = new Map([[three[2] ?? '', one]]);
      expect(isInTrouble({ ...status, assessment: { ...status.assessment, health } })).toBe(false);
    }
  });

  test.each([
    ['is dead', dead, 'dead'],
    ['has lost its etcd', { ...dead, state: 'draining' } as const, 'draining'],
    ['is suspected', { ...dead, state: 'ready', unconfirmedFailure: 'etcd failed' } as const, 'suspected'],
  ])('leads with it that every apiserver %s, in red, where one alone does not', async (_, one, word) => {
    const kernel = createHost();
    await applyPlan(kernel, (await lookOnce(kernel, ordinaryConfig)).plan);
    const bare = await readBare(kernel);
    const see = (bad: readonly string[]) => bare(new Map(bad.map((text) => [text, one])));
    const first = (status: HostStatus) =>
      formatStatus(status, { ...plainScreen, isColoured: true }).split('\n')[0];
    expect(first(see(three))).toMatch(
      /^10\.0\.0\.50:6443 {3}\u001b\[31mNO APISERVER IS READY\u001b\[39m · all 3 stay in use · (?!.*in sync)/,
    );
    expect(formatStatus(see(three))).toMatch(new RegExp(`^  10\\.77\\.0\\.12:6443 +${word} `, 'm'));
    expect(first(see(three.slice(1)))).toMatch(/held by this node · .*in sync/);
    expect([three, three.slice(1), []].map((bad) => isInTrouble(see(bad)))).toEqual([true, true, false]);
    const { assessment } = see(three);
    expect(formatCheck({ ...findings, assessment }).split('\n')[0]).toMatch(
      /^10\.0\.0\.50:6443: NO APISERVER IS READY, all 3 stay in use\. .*in sync/,
    );
    const coloured = formatCheck({ ...findings, assessment }, { ...plainScreen, isColoured: true });
    expect(coloured).not.toContain('\u001b[32m');
  });

  test('says in its first line that the rules are not as they should be, and names each difference', async () => {
    const kernel = createHost();
    await applyPlan(kernel, (await lookOnce(kernel, ordinaryConfig)).plan);
    for (const chain of ['OUTPUT', 'PREROUTING']) {
      const hook = new RegExp(`^-A (${chain} .*-j VIPNAT)$`, 'm').exec(kernel.show('ipv4', 'nft'))?.[1] ?? '';
      kernel.run('ipv4', 'nft', `*nat\n-D ${hook}\nCOMMIT\n`);
    }
    const status = await read(kernel, false);
    const lines = formatStatus(status).split('\n');
    expect(lines[0]).toMatch(
      /^10\.0\.0\.50:6443 {3}held by this node · service-chain · NOT IN SYNC \(\d+ differences\)$/,
    );
    expect(lines).toContain('agent       NOT RUNNING: rules stay, no agent repairs them');
    expect(lines).toContainEqual(expect.stringMatching(/^drift {7}\S.* \(nat, iptables-nft\)$/));
    expect(isInTrouble(status)).toBe(true);
  });

  const livenessOnly = '/readyz answers 401 without credentials, and vipnat has none';
  const unconfirmedFailure = 'no answer to TCP connects';
  test.each([
    ['looks bad and is kept in use', { unconfirmedFailure }, `suspected ${unconfirmedFailure}`],
    ['shows only that it lives', { livenessOnly }, `ready liveness only: ${livenessOnly}`],
  ])('says it of an apiserver that %s', async (_, detail, said) => {
    const see = await readBare(createHost());
    const one = { state: 'ready', reason: '', staleConnections: 'none', ...detail } as const;
    const lines = formatStatus(see(new Map([[three[1] ?? '', one]]))).split('\n');
    expect(lines.map((line) => line.replace(/ +/g, ' '))).toContain(` 10.77.0.12:6443 ${said}`);
  });

  const fault = { 'vip-10.0.0.50': { state: 'FAULT', forMs: 12_000 } } as const;
  const findNone = (isHidden: boolean) =>
    new Map([['10.0.0.50', { isRunning: false, isHidden, instance: null }]]);
  test.each([
    [
      'FAULT for 12 s',
      { activity: { writes: 2, syncedMsAgo: 40, apiservers: {}, keepalived: fault } },
      'FAULT',
    ],
    ['not seen from this container', { keepalived: findNone(true) }, null],
    ['none is seen here', { keepalived: findNone(false) }, null],
  ])('says of keepalived: %s', async (words, more, state) => {
    const status = (await readBare(createHost(), more))(new Map());
    expect(formatStatus(status)).toMatch(new RegExp(`^keepalived {2}${words}$`, 'm'));
    const keepalived = { running: state !== null, state };
    expect(JSON.parse(formatStatusJson(status, 'm1', new Date()))).toMatchObject({ vips: [{ keepalived }] });
  });

  test('says of a VIP whose address is on another host, or on none, only that it is not held here', async () => {
    const kernel = restoreCaptures(['iptables-nft-save.three-endpoints.txt']);
    kernel.addAddress({ family: 'ipv4', address: '10.77.0.11', device: 'eth0' });
    const status = await read(kernel);
    expect(formatStatus(status)).toMatch(/^10\.0\.0\.50:6443 {3}not held by this node · service-chain · /);
    expect(JSON.parse(formatStatusJson(status, 'm1', new Date()))).toMatchObject({
      vips: [{ held: false, keepalived: { running: true, state: null } }],
    });
    expect(formatStatus(status)).toMatch(/^keepalived {2}running, state not known · vrid 51/m);
  });

  test.each([false, true])('lists not what is missing where none is; an agent runs: %s', async (isHere) => {
    const status = await read(createHost(), isHere);
    const text = formatStatus(status).replaceAll(/\s+/g, ' ');
    const next = 'agent NOT RUNNING: no rule of vipnat is here · vipnat doctor says what is next';
    expect([text.includes(next), text.includes('drift no rule of vipnat')]).toEqual([!isHere, !isHere]);
    const agent = isHere ? { pid: 812 } : null;
    const check = formatCheck({ ...findings, agent, assessment: status.assessment });
    expect((check.match(/drift:/g) ?? []).length > 1).toBe(isHere);
    expect(check.includes('drift: no rule of vipnat is here\n')).toBe(!isHere);
  });

  test('says in its first line that a VIP is not balanced', async () => {
    const kernel = createHost([]);
    await applyPlan(kernel, (await lookOnce(kernel, ordinaryConfig)).plan);
    const status = await read(kernel);
    expect(formatStatus(status)).toMatch(
      /^10\.0\.0\.50:6443 {3}NOT BALANCED · passthrough · held by this node\n {2}because no apiserver is known/,
    );
    expect(isInTrouble(status)).toBe(true);
  });
});

describe("keepalived's configuration", () => {
  test('is looked for where keepalived was told to look, however that is written', () => {
    const before = '|-Dl|-p x|-px|--pid x|--pi=-f|-t|-t-f/no|-g/f|-i-f|-f /no'.split('|');
    const named = '-f F|-fF|-nlf F|-DPfF|--use-file F|--use-file=F|--us F|--use-f=F'.split('|');
    const after = ['', '-nlP', '--vrrp', '-i /x', '-- -f /no'];
    const files = ['/etc/a.conf', '/run/b/a.conf', 'a.conf', './a.conf', '../b/a.conf'];
    const lines = before.flatMap((first) => after.map((last) => [first, last] as const));
    const choices = named.flatMap((one) => files.map((file) => [one.replace('F', file), file] as const));
    for (const [first, last] of lines) {
      for (const [one, file] of choices) {
        const line = `keepalived ${first} ${one} ${last}`.trim().split(/ +/);
        const path = file === files[0] ? file : files[1];
        expect([line, findNamedFile(line, '/run/b')]).toEqual([line, path]);
      }
    }
    for (const line of ['keepalived --dont-fork', 'keepalived -- -f /no', 'keepalived -p -f/no'])
      expect(findNamedFile(line.split(' '), '/run/b')).toBeNull();
  });

  test('says how masters reach each other', () => {
    const unicast = `vrrp_instance A {
      advert_int 0.3
      unicast_src_ip 10.0.0.11
      unicast_peer {
        10.0.0.12
        10.0.0.13 # m3
      }
    }`;
    const masters = ['10.0.0.11', '10.0.0.12', '10.0.0.13'];
    expect(findWire(unicast)).toEqual({ masters, advertSeconds: 0.3 });
    expect(findWire('vrrp_instance A {\n}\n')).toEqual({ masters: [], advertSeconds: null });
  });
});
