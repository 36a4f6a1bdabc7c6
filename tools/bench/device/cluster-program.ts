/**
 * A cluster behind a pair of HAProxy: pods, and vipnat's driver, which tells the pair of them. Started with the file of the device's settings.
 * Answers a line `{"task": "settle"}` with the place of the active unit as soon as both have the same, and `{"task": "update"}` with the
 * milliseconds that a rolling update took.
 */
import { readFileSync } from 'node:fs';
import type { DeviceSettings, Balancer } from '../../../devices/driver.ts';
import { createHaproxy } from '../../../devices/haproxy/driver.ts';
import { systemClock } from '../../../lib/clock.ts';
import { type Server, type Socket, createServer } from 'node:net';
import { podAddresses, service } from './pair.ts';
import { createInterface } from 'node:readline';
import { waitUntil } from '../shared/wait.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseAddress } from '../../../lib/net.ts';
import { once } from 'node:events';

/** What does not work is tried again. */
const retryMs = 100;

/** A pod gets no new connections for so long before it goes. */
const drainMs = 500;

const settings = JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8')) as DeviceSettings;
const driver = createHaproxy(settings, { clock: systemClock, beforeCall: () => undefined });
const { signal } = new AbortController();
const servers = new Map<string, { readonly server: Server; readonly sockets: Set<Socket> }>();
let pods = podAddresses.slice(0, podAddresses.length / 2);

for (const address of podAddresses) await serve(address, pods.includes(address) ? 'pod' : 'gone');
process.stdout.write('"ready"\n');
for await (const line of createInterface({ input: process.stdin })) {
  const { task } = JSON.parse(line) as { readonly task: 'settle' | 'update' };
  process.stdout.write(`${JSON.stringify(await (task === 'update' ? update() : settle()))}\n`);
}
process.exit();

async function settle(): Promise<number> {
  let active = -1;
  await waitUntil('one unit is active, and the other one has the same', async () => {
    await driver.ensure(toBalancer(pods), signal);
    await driver.confirm?.([toBalancer(pods).id], signal);
    const { units } = await driver.readState(signal);
    active = units.findIndex(({ role }) => role === 'active');
    return units.every(({ isInSync }) => isInSync === true);
  });
  return active;
}

/** Another pod for each, one after the other. Each step waits until the device has the one before. */
async function update(): Promise<number> {
  const begun = performance.now();
  const others = podAddresses.filter((address) => !pods.includes(address));
  for (const old of pods) {
    const fresh = others.shift() ?? '';
    await serve(fresh, 'pod');
    await ensure([...pods, fresh]);
    const left = pods.filter((address) => address !== old);
    await ensure([...left, fresh], old);
    await sleep(drainMs);
    pods = [...left, fresh];
    await ensure(pods);
    // Its address is another program's then: whoever still goes there gets that one.
    await serve(old, 'gone');
  }
  return performance.now() - begun;
}

async function ensure(addresses: readonly string[], draining?: string): Promise<void> {
  while ((await driver.ensure(toBalancer(addresses, draining), signal)).result !== 'done')
    await sleep(retryMs);
}

function toBalancer(addresses: readonly string[], draining?: string): Balancer {
  const toMember = (text: string, weight: number) =>
    [parseAddress(text)].flatMap((address) => (address === null ? [] : { address, port: 8000, weight }));
  const members = [
    ...addresses.flatMap((text) => toMember(text, 1)),
    ...(draining === undefined ? [] : toMember(draining, 0)),
  ];
  const listen = parseAddress(service.host);
  return {
    id: { cluster: settings.cluster, namespace: 'shop', name: 'web', uid: '1f2e' },
    addresses: listen === null ? [] : [listen],
    listeners: [{ protocol: 'tcp', port: service.port, members }],
    ...{ method: 'rr', affinityS: null },
  };
}

/** Ends what serves there, with its connections, and lets another program say its name there. */
async function serve(host: string, name: string): Promise<void> {
  const former = servers.get(host);
  former?.server.close();
  for (const socket of former?.sockets ?? []) socket.destroy();
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
    socket.resume().write(`${name}\n`);
  });
  servers.set(host, { server, sockets });
  await once(server.listen({ host, port: 8000 }), 'listening');
}
