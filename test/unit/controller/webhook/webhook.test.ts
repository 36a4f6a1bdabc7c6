/** Webhooks of two controllers, against an API on a local socket; API servers are played by clients of TLS. */
import { useCertificates, accessByVip, eventually } from '../../../support/api/api-world.ts';
import { Webhook } from '../../../../controller/webhook/webhook.ts';
import { WebhookLog } from '../../../../controller/report/log.ts';
import { type RecordingLogger, createRecordingLogger } from '../../../support/fakes/logger.ts';
import { KubeApi } from '../../../support/kube-api/kube-api.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import type { WriteAnswer, ObjectClient } from '../../../../lib/kubernetes/writes.ts';
import { beforeEach, afterEach, test, expect } from '@jest/globals';
import { webhookQuestions } from '../../../support/kube-api/service-questions.ts';
import { makeLoadBalancer } from '../../../support/kube-api/service-objects.ts';
import { ApiRoute } from '../../../../lib/kubernetes/route.ts';
import { toEndpoint } from '../../../support/fakes/endpoints.ts';
import { vips } from '../../../support/network/layout.ts';
import type { KubeObject } from '../../../support/kube-api/kube-store.ts';
import { merge } from '../../../support/fakes/merge-patch.ts';
import { toPod } from '../../../support/manifest/injected-pods.ts';
import { Agent, request } from 'node:https';
import { connect } from 'node:tls';

const certificates = useCertificates();
const servername = 'vipnat-webhook.vipnat-system.svc';
const dayMs = 86_400_000;

/** Who connects for each question may ask as often as that. */
const handshakeMs = 1000 / 32;

interface Life {
  readonly webhook: Webhook;
  readonly logger: RecordingLogger;
  isLeading: boolean;
}

let api: KubeApi;
let clock: FakeClock;
let lives: [Life, Life];
let writes: string[];
/** What is answered instead of a write; null for what it comes to. */
let refusal: WriteAnswer['outcome'] | null;

beforeEach(async () => {
  api = await KubeApi.start({ pair: certificates().serving('m1'), questions: webhookQuestions });
  api.allowsAll = true;
  const spec = { loadBalancerClass: 'vipnat.io/lb', selector: { app: 'web' } };
  api.store.put('Service', makeLoadBalancer('web', [{ port: 80 }], { spec }));
  putConfiguration();
  [clock, writes, refusal] = [new FakeClock(new Date()), [], null];
  lives = [live(), live()];
  lives[0].isLeading = true;
});

afterEach(async () => {
  const stopped = lives.map(({ webhook }) => webhook.stop());
  await clock.advance(10_000);
  await Promise.all(stopped);
  await api.stop();
});

/** As a manifest is applied: without what is trusted. */
function putConfiguration(): void {
  const webhooks = [{ name: 'gates.vipnat.io', clientConfig: {} }];
  api.store.put('MutatingWebhookConfiguration', { metadata: { name: 'vipnat-webhook' }, webhooks });
}

function live(): Life {
  const route = new ApiRoute(
    () => Promise.resolve(accessByVip(certificates().authority)),
    [toEndpoint(`${vips.ipv4}:6443`)],
  );
  route.setServers({ endpoints: [toEndpoint(`127.0.0.1:${api.port}`)], localAddresses: new Set() });
  const logger = createRecordingLogger();
  const webhook: Webhook = new Webhook({
    ...{ route, client, clock, random: () => 0, log: new WebhookLog(logger) },
    ...{ namespace: 'vipnat-system', port: 0 },
    writeMs: () => (life.isLeading ? 4000 : 0),
  });
  const life = { webhook, logger, isLeading: false };
  return life;
}

/** Writes as an apiserver does: a version decides, and webhooks are merged by their names. */
const client: ObjectClient = {
  read: () => Promise.resolve({ outcome: 'gone' }),
  write: ({ method, path, body }) => {
    const answer = (outcome: WriteAnswer['outcome']) =>
      Promise.resolve({ outcome, detail: `it is ${outcome}`, version: null });
    if (refusal !== null) return answer(refusal);
    const isSecret = path.includes('/secrets');
    const kind = isSecret ? 'Secret' : 'MutatingWebhookConfiguration';
    const before = readObject(kind);
    const { metadata } = body as KubeObject;
    const isKnown = before?.metadata['resourceVersion'] === metadata['resourceVersion'];
    if (method === 'POST' && before !== null) return answer('exists');
    if (method === 'PATCH' && !isKnown) return answer(before === null ? 'gone' : 'conflict');
    const namespace = isSecret ? { namespace: 'vipnat-system' } : {};
    const own = { metadata: { ...metadata, name: 'vipnat-webhook', ...namespace } };
    api.store.put(kind, { ...(merge(before, body) as KubeObject), ...own });
    writes.push(`${method} ${kind}`);
    return answer('taken');
  },
};

function readObject(kind: 'Secret' | 'MutatingWebhookConfiguration'): KubeObject | null {
  return (
    api.store.objects[kind].get(kind === 'Secret' ? 'vipnat-system/vipnat-webhook' : 'vipnat-webhook') ?? null
  );
}

/** What API servers trust now. */
function readTrusted(): string {
  const { webhooks } = readObject('MutatingWebhookConfiguration') as unknown as {
    webhooks: readonly { clientConfig: { caBundle?: string } }[];
  };
  return Buffer.from(webhooks[0]?.clientConfig.caBundle ?? '', 'base64').toString();
}

const countTrusted = () => readTrusted().match(/BEGIN/g)?.length ?? 0;

const isCurrent = () => {
  const { data } = (readObject('Secret') ?? {}) as { data?: Record<string, string> };
  return data?.['tls.crt'] !== undefined && data['next.crt'] === undefined;
};

/** Lets time pass until it is so. */
const pass = async (what: string, isSo: () => boolean) => {
  await eventually(what, () => {
    void clock.advance(1000);
    return isSo();
  });
};

const areServing = () => lives.every(({ webhook }) => webhook.state.isServing);

/** Both serve, and what they serve with is the Secret's. */
async function startBoth(): Promise<void> {
  for (const { webhook } of lives) webhook.start();
  await pass('both serve', areServing);
  await pass('the pair is in use', isCurrent);
}

const review = (object: object = toPod({})) =>
  JSON.stringify({
    ...{ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview' },
    request: {
      ...{ uid: 'u1', operation: 'CREATE', namespace: 'default', object, dryRun: true },
      resource: { group: '', version: 'v1', resource: 'pods' },
    },
  });

interface Asked {
  readonly status: number;
  readonly text: string;
  readonly connection: string | undefined;
  /** By its certificate. */
  readonly serial: string;
}

interface AskOptions {
  readonly ca?: string;
  readonly path?: string;
  readonly agent?: Agent | false;
}

/** Asks as an API server does that trusts what the configuration says now. */
function ask(
  { webhook }: Life,
  body = review(),
  { ca = readTrusted(), path = '/gates', agent = false }: AskOptions = {},
): Promise<Asked> {
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port: webhook.port ?? 0, servername, ca, path, agent };
    const question = request({ ...options, method: 'POST' }, (response) => {
      let text = '';
      const { serialNumber } = (
        response.socket as unknown as { getPeerCertificate: () => { serialNumber: string } }
      ).getPeerCertificate();
      response.setEncoding('utf8').on('data', (part: string) => (text += part));
      response.on('end', () => {
        const { statusCode = 0, headers } = response;
        resolve({ status: statusCode, text, connection: headers.connection, serial: serialNumber });
      });
    });
    question.on('error', reject).end(body);
  });
}

const countAnswers = (life: Life) => Object.fromEntries(life.webhook.state.answers);

test('both controllers answer, whichever leads, and count what they answer', async () => {
  await startBoth();
  for (const life of lives) {
    const { status, text } = await ask(life);
    expect(status).toBe(200);
    const { response } = JSON.parse(text) as { response: { allowed: boolean; patch: string } };
    expect(response.allowed).toBe(true);
    expect(Buffer.from(response.patch, 'base64').toString()).toContain('vipnat.io/load-balancer-ready');
    expect(JSON.parse((await ask(life, review(toPod({ labels: {} })))).text)).toEqual({
      ...{ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview' },
      response: { uid: 'u1', allowed: true },
    });
    expect(countAnswers(life)).toEqual({ patched: 1, unchanged: 1, failed: 0 });
  }
  expect(writes).toEqual(['POST Secret', 'PATCH MutatingWebhookConfiguration', 'PATCH Secret']);
});

test('Services that come, and that go, count from then on', async () => {
  await startBoth();
  const askAbout = async (app: string) =>
    (await ask(lives[1], review(toPod({ labels: { app } })))).text.includes('patch');
  expect(await askAbout('late')).toBe(false);
  const spec = { loadBalancerClass: 'vipnat.io/lb', selector: { app: 'late' } };
  api.store.put('Service', makeLoadBalancer('late', [{ port: 80 }], { spec }));
  let is = false;
  const look = (wanted: boolean) => async () => {
    clock.stall(handshakeMs);
    is = await askAbout('late');
    return is === wanted;
  };
  for (const isThere = look(true); !(await isThere()););
  api.store.remove('Service', 'late');
  for (const isGone = look(false); !(await isGone()););
  expect(await askAbout('web')).toBe(true);
});

test('a bad request is refused, and harms no other: no review, too long a one, another path, no TLS', async () => {
  await startBoth();
  const [life] = lives;
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  expect(await ask(life, '{', { agent })).toMatchObject({ status: 400 });
  expect(await ask(life, review(), { path: '/metrics' })).toMatchObject({ status: 404 });
  const long = await ask(life, 'x'.repeat(4_000_000)).catch(() => ({ status: 413 }));
  expect(long.status).toBe(413);
  await new Promise((resolve) => {
    const socket = connect({
      ...{ host: '127.0.0.1', port: life.webhook.port ?? 0, maxVersion: 'TLSv1.1', minVersion: 'TLSv1' },
    });
    socket.on('error', resolve);
  });
  expect(await ask(life, review(), { agent })).toMatchObject({ status: 200 });
  agent.destroy();
  expect(countAnswers(life)).toEqual({ patched: 1, unchanged: 0, failed: 3 });
});

test('who sends megabytes on end is refused, and after a while read again', async () => {
  await startBoth();
  const [life] = lives;
  const big = review({ ...toPod({}), filler: 'x'.repeat(3_000_000) });
  const statuses: number[] = [];
  for (let time = 0; time < 14; time += 1)
    statuses.push(
      await ask(life, big).then(
        ({ status }) => status,
        () => 429,
      ),
    );
  expect(statuses.slice(0, 8)).toEqual(Array.from({ length: 8 }, () => 200));
  expect(statuses.at(-1)).toBe(429);
  await clock.advance(5000);
  expect(await ask(life)).toMatchObject({ status: 200 });
});

test('the certificate is renewed while both serve: at every moment what they serve with is trusted', async () => {
  await startBoth();
  const serials = new Set<string>();
  const askBoth = async () => {
    clock.stall(handshakeMs);
    for (const life of lives) serials.add((await ask(life)).serial);
  };
  await askBoth();
  expect(serials.size).toBe(1);
  clock.jump(121 * dayMs);
  const before = readTrusted();
  await pass('the next one is trusted', () => countTrusted() === 2);
  await askBoth();
  expect(serials.size).toBe(1);
  await pass('the next one is served', isCurrent);
  for (let round = 0; serials.size < 2 && round < 1000; round += 1) await askBoth();
  await eventually('both serve with it', () =>
    lives.every(({ webhook }) => (webhook.state.untilMs ?? 0) > clock.date().getTime() + 300 * dayMs),
  );
  serials.clear();
  await askBoth();
  expect(serials.size).toBe(1);
  expect(readTrusted()).toContain(before);
  await expect(ask(lives[0], review(), { ca: before })).rejects.toThrow(/certificate/);
});

test('a Secret that is deleted again and again is made anew, and nobody is refused meanwhile', async () => {
  await startBoth();
  const { serial } = await ask(lives[1]);
  const before = readTrusted();
  await clock.advance(120_000);
  // The first certificate is served all the time: none of the next ones is trusted for long enough.
  for (let round = 0; round < 5; round += 1) {
    const known = readTrusted();
    api.store.remove('Secret', 'vipnat-system/vipnat-webhook');
    await pass('a new one is trusted', () => readTrusted() !== known);
    expect((await ask(lives[1])).serial).toBe(serial);
  }
  expect(countTrusted()).toBe(5);
  await pass('it is served', isCurrent);
  await eventually(
    'it is served by the other',
    () => lives[1].logger.lines.filter(({ message }) => message.includes('has a certificate')).length === 2,
  );
  expect((await ask(lives[1])).serial).not.toBe(serial);
  expect(readTrusted()).toContain(before);
});

test('each says whether what it serves with is trusted, which is put back where somebody replaces the configuration', async () => {
  await startBoth();
  const areTrusted = (isTrusted: boolean) => () =>
    lives.every(({ webhook }) => webhook.state.isTrusted === isTrusted);
  await pass('both are trusted', areTrusted(true));
  refusal = 'refused';
  putConfiguration();
  await pass('nobody is', areTrusted(false));
  refusal = null;
  await pass('both are again', areTrusted(true));
});

test('who replaces the configuration again and again is answered less and less often', async () => {
  await startBoth();
  const countWrites = () => writes.filter((one) => one.endsWith('Configuration')).length;
  for (let round = 0; round < 300; round += 1) {
    if (readTrusted() !== '') putConfiguration();
    await clock.advance(1000);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  expect(countWrites()).toBeGreaterThan(3);
  expect(countWrites()).toBeLessThan(20);
});

test('of two that think that they lead one is refused, and both end with one pair', async () => {
  lives[1].isLeading = true;
  await startBoth();
  expect(writes.filter((one) => one === 'POST Secret')).toHaveLength(1);
  const serials = await Promise.all(lives.map(async (life) => (await ask(life)).serial));
  expect([new Set(serials).size, countTrusted()]).toEqual([1, 1]);
  expect(lives.flatMap(({ logger }) => logger.lines.filter(({ level }) => level === 'warn'))).toEqual([]);
});

test('without a right to its Secret it says so once, serves nothing, and goes on when it has the right', async () => {
  refusal = 'forbidden';
  for (const { webhook } of lives) webhook.start();
  const listWarnings = () => lives[0].logger.lines.filter(({ level }) => level === 'warn');
  await pass('it says so', () => listWarnings().length > 0);
  await clock.advance(300_000);
  expect(listWarnings()).toHaveLength(1);
  expect(lives.map(({ webhook }) => webhook.state.isServing)).toEqual([false, false]);
  refusal = null;
  await pass('both serve', areServing);
});

test('one that ends answers for three more seconds, and has its clients connect elsewhere', async () => {
  await startBoth();
  const [life] = lives;
  expect(await ask(life)).toMatchObject({ status: 200 });
  const stopped = life.webhook.stop();
  await clock.advance(2900);
  expect(await ask(life)).toMatchObject({ status: 200, connection: 'close' });
  await clock.advance(200);
  await stopped;
  expect(life.webhook.state.isServing).toBe(false);
});
