/** People, devices, controllers and the API do what they like; then there is a quiet, and all must agree. */
import { type CallEnd, listTexts } from '../../../support/fakes/plain-device.ts';
import { type StoredObject } from '../../../support/fakes/object-api.ts';
import { type Walk } from '../engine/walks.ts';
import { type DeviceName, foreign, readChoice, World } from './world.ts';

/** Longer than what failed can wait. */
const quietMs = 6 * 60_000;

const names = ['d1', 'd2'] as const;

export async function walk(seed: number, actions: number): Promise<Walk> {
  const first = new World(seed);
  const worlds = [first, new World(first)];
  const history: string[] = [];
  const counts = new Map<string, number>();
  const count = (what: string) => counts.set(what, (counts.get(what) ?? 0) + 1);
  const finish = (complaint: string | null) => ({ seed, complaint, history, counts });
  const { clock } = first;
  for (let index = 1; index <= actions; index += 1) {
    const isEnd = index === actions;
    const world = first.random.pick(worlds);
    const action = world.random.chance(25) ? createService : world.random.pick(acts);
    history.push(`${clock.now()} ${world.cluster} ${action.name} ${action(world)}`);
    await clock.advance(first.random.pick([0, 10, 300, 5000, 20_000]));
    const complaints = worlds.flatMap((each) => each.complaints);
    if (complaints.length > 0) return finish(complaints.join('; '));
    if (index % 20 !== 0 && !isEnd) continue;
    for (const each of worlds) calm(each, isEnd);
    history.push(`${clock.now()} a quiet begins`);
    await clock.advance(quietMs);
    const complaint = worlds.flatMap((each) => [...each.complaints, ...judge(each, count)]).join('; ');
    if (complaint !== '') return finish(complaint);
  }
  for (const life of worlds.flatMap(({ controllers }) => controllers)) life.clock.kill();
  return finish(null);
}

function calm(world: World, isEnd: boolean): void {
  const { objects } = world.api;
  if (isEnd) for (const key of objects.list('Service').keys()) objects.remove('Service', key);
  for (const { clock, link } of world.controllers) {
    link.isCut = false;
    clock.goOn();
  }
  world.api.catchUp();
  while (world.controllers.length < 2) world.startController();
  for (const name of names)
    Object.assign(world.devices[name], { chooseEnd: () => 'done', refuses: null, runs: 0 });
}

function judge(world: World, count: (what: string) => void): string[] {
  const complaints = names.flatMap((name) => {
    const { objects } = world.devices[name];
    return [...foreign].flatMap(([key, value]) =>
      objects.get(key) === value ? [] : [`${name} lost ${key}`],
    );
  });
  const given = new Map<string, string>();
  for (const [key, service] of world.api.objects.list('Service')) {
    const addresses = readIngress(service);
    for (const text of addresses) {
      if (given.has(text)) complaints.push(`${key} and ${given.get(text)} have ${text}`);
      given.set(text, key);
    }
    complaints.push(...judgeService(world, key, service, count));
  }
  return [...complaints, ...names.flatMap((name) => judgeRest(world, name))];
}

/** What is on a device is of a Service that has chosen it, or whose new device cannot have it. */
function judgeRest(world: World, name: DeviceName): string[] {
  return world.devices[name].list(world.cluster).flatMap(({ id: { uid }, identity }) => {
    if (identity === 'bbbbbbbb') return [];
    const service = world.findService(uid);
    const chosen = service === null ? null : readChoice(service);
    const isKept = chosen !== null && !has(world, chosen, uid);
    return chosen === name || isKept ? [] : [`${name} still has ${uid}`];
  });
}

function judgeService(
  world: World,
  key: string,
  service: StoredObject,
  count: (what: string) => void,
): string[] {
  const chosen = readChoice(service);
  const addresses = readIngress(service);
  const holders = (service.metadata.finalizers ?? []).filter((each) => each.startsWith('device.vipnat.io/'));
  const complaint = [`${key} has the finalizers ${holders.join()} and ${addresses.join()}`];
  if (chosen === null) return holders.length + addresses.length === 0 ? [] : complaint;
  const own = world.devices[chosen].list(world.cluster).find(({ id }) => id.uid === service.metadata.uid);
  count(own === undefined ? 'without a balancer' : 'served');
  // It stays where it was before.
  if (own === undefined) return lacksAddress(service) ? [] : [`${key} is not on ${chosen}`];
  if (holders.join() !== `device.vipnat.io/${chosen}`) return complaint;
  const members = own.listeners.flatMap((one) => one.members.filter(({ weight }) => weight > 0));
  const found = [listTexts(own.addresses), members.map(({ address }) => address.text).sort()];
  const expected = [addresses, listReady(world, key)];
  return JSON.stringify(found) === JSON.stringify(expected)
    ? []
    : [`${key}: ${chosen} has ${JSON.stringify(found)}, and the API ${JSON.stringify(expected)}`];
}

function has(world: World, name: DeviceName, uid: string): boolean {
  return world.devices[name].list(world.cluster).some(({ id }) => id.uid === uid);
}

function lacksAddress({ status }: StoredObject): boolean {
  return /AddressTaken|NoFreeAddress|OutsideDevice/.test(JSON.stringify(status?.['conditions'] ?? []));
}

function listReady(world: World, key: string): string[] {
  const slice = world.api.objects.list('EndpointSlice').get(key);
  return (slice?.endpoints ?? [])
    .filter(({ conditions }) => (conditions as { ready: boolean }).ready)
    .flatMap(({ addresses }) => addresses as string[])
    .sort();
}

function readIngress({ status }: StoredObject): string[] {
  const { ingress } = (status?.['loadBalancer'] ?? {}) as { ingress?: readonly { ip: string }[] };
  return (ingress ?? []).map(({ ip }) => ip);
}

const pickService = ({ api, random }: World) =>
  random.pick(['apps/s0', ...api.objects.list('Service').keys()]);

const toSpec = ({ random, cluster }: World, loadBalancerClass: string | null) => ({
  ...{ type: 'LoadBalancer', ipFamilies: ['IPv4'], ports: [{ protocol: 'TCP', port: 80 }] },
  loadBalancerClass: loadBalancerClass ?? undefined,
  loadBalancerIP: random.chance(40) ? `10.9.${cluster === 'c' ? 0 : 1}.${1 + random.below(9)}` : undefined,
});

function createService(world: World): string {
  const key = `apps/s${world.random.below(7)}`;
  const annotations = { 'lb.zcloud.cn/vip': '' };
  const isFormer = world.random.chance(30);
  const spec = toSpec(world, isFormer ? null : `vipnat.io/${world.random.pick(names)}`);
  world.api.objects.create('Service', key, { spec, ...(isFormer ? { metadata: { annotations } } : {}) });
  return `${key} ${JSON.stringify(spec)}`;
}

const acts: readonly ((world: World) => string)[] = [
  function changeEndpoints(world) {
    const key = pickService(world);
    const endpoints = world.random.list(4, () => ({
      addresses: [`10.1.0.${1 + world.random.below(20)}`],
      conditions: { ready: world.random.chance(80), terminating: world.random.chance(30) },
    }));
    const distinct = [...new Map(endpoints.map((one) => [one.addresses[0], one])).values()];
    const metadata = { labels: { 'kubernetes.io/service-name': key.split('/')[1] } };
    const slice = {
      metadata,
      addressType: 'IPv4',
      endpoints: distinct,
      ports: [{ name: '', protocol: 'TCP', port: 80 }],
    };
    world.api.objects.create('EndpointSlice', key, slice);
    world.api.objects.patch('EndpointSlice', key, { endpoints: distinct });
    return `${key} ${JSON.stringify(distinct)}`;
  },
  function deleteService(world) {
    const key = pickService(world);
    world.api.objects.remove('Service', key);
    return key;
  },
  function moveService(world) {
    const key = pickService(world);
    const wanted = toSpec(world, `vipnat.io/${world.random.pick(names)}`);
    const spec = world.random.chance(20) ? { type: 'ClusterIP' } : wanted;
    world.api.objects.patch('Service', key, { spec });
    return `${key} ${JSON.stringify(spec)}`;
  },
  function failDevice(world) {
    const name: DeviceName = world.random.pick(names);
    const device = world.devices[name];
    const percent = world.random.pick([0, 10, 50, 100]);
    device.chooseEnd = (): CallEnd =>
      world.random.chance(percent) ? world.random.pick(['never sent', 'answer lost']) : 'done';
    device.runs = world.random.below(4);
    const refused = world.random.below(10);
    device.refuses = ({ name: own }) => (own === `s${refused}` ? 'the table is full' : null);
    return `${name} ${percent}`;
  },
  function loseConfiguration(world) {
    const name: DeviceName = world.random.pick(names);
    const { objects } = world.devices[name];
    const own = [...objects.keys()].filter((key) => !foreign.has(key));
    world.forgotten.ms = world.clock.now();
    for (const key of own) if (world.random.chance(50)) objects.delete(key);
    return name;
  },
  /** From now on it misses what is written. */
  function cutStandby(world) {
    const name: DeviceName = world.random.pick(names);
    world.behind.set(name, new Map(world.devices[name].objects));
    return name;
  },
  function failOver(world) {
    const name: DeviceName = world.random.pick(names);
    const { objects, active } = world.devices[name];
    const behind = world.behind.get(name) ?? new Map(objects);
    world.behind.delete(name);
    world.forgotten.ms = world.clock.now();
    objects.clear();
    for (const [key, value] of behind) objects.set(key, value);
    world.devices[name].active = 1 - active;
    return name;
  },
  function killController(world) {
    const life = world.random.pick(world.controllers);
    life.clock.kill();
    world.controllers = world.controllers.filter((one) => one !== life);
    world.startController();
    return '';
  },
  function holdController(world) {
    const { clock, link } = world.random.pick(world.controllers);
    if (world.random.chance(50)) link.isCut = !link.isCut;
    else if (clock.isHeld) clock.goOn();
    else clock.hold();
    return '';
  },
];
