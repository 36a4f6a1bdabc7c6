import { test, expect } from '@jest/globals';
import { addressReady, type AddressUser, type Condition } from '../../../lib/api/vipnat.ts';
import type { Ingress } from '../../../lib/api/service.ts';
import { makePool, makeNode, type Inventory, toServiceKey, makeWorld, nowMs } from './service-objects.ts';
import type { StepKey } from '../../../controller/cache/known.ts';
import type { Kind, Step, Write } from '../../../controller/step.ts';
import type { ClusterView } from '../../../controller/cache/cache.ts';
import { kinds } from '../../../controller/leadership.ts';

/** One address, and one node. */
const usual = { pools: [makePool('pool', { addresses: ['10.0.9.10'] })], nodes: [makeNode('node-1')] };

/** The next step of a key, `apps/a` where none is given, in a world with one address and one node, unless it has others. */
export function decide(inventory: Inventory, key: StepKey = toServiceKey('apps/a')): Step {
  return nextStep(key, makeWorld({ ...usual, ...inventory }));
}

export function getWrite(step: Step): Write {
  if (step.does !== 'write') throw new TypeError(`no write: ${JSON.stringify(step)}`);
  return step.write;
}

interface Said {
  readonly metadata?: { readonly resourceVersion?: string; readonly finalizers?: readonly string[] };
  readonly spec?: Readonly<Partial<Record<'services' | 'leaving', readonly AddressUser[]>>>;
  readonly status?: {
    readonly loadBalancer?: { readonly ingress: readonly Ingress[] | null };
    readonly conditions?: readonly Condition[];
  };
}

/**
 * What a step does, in short: what it waits for and for how many milliseconds, or the request, the finalizers, the users and the status that it
 * writes, all conditions without their messages, what it confirms, and its event.
 */
export function tell(step: Step): string {
  if (step.does === 'nothing') return 'nothing';
  if (step.does === 'wait')
    return `wait ${step.waitsFor} ${step.untilMs === null ? '' : step.untilMs - nowMs}`.trim();
  const { method, kind, key, confirm } = step.write;
  const isGone = (version: string | null) => version ?? 'gone';
  return [
    `${method} ${kind} ${key}`,
    ...tellBody(step.write),
    ...confirm.map(({ path, version }) => `if ${path.split('/').slice(-2).join('/')} is ${isGone(version)}`),
    ...(step.event === null ? [] : [`event ${step.event.type} ${step.event.reason}`]),
    ...(step.isLowPriority === true ? ['later'] : []),
  ].join('; ');
}

function checkPart({ method, path, body }: Write): void {
  const { metadata, status } = body as Said;
  if ((status === undefined) === path.endsWith('/status')) throw new TypeError(`${path} is another part`);
  if (method === 'PATCH' && metadata?.resourceVersion === undefined) throw new TypeError('without a version');
}

function tellBody(write: Write): string[] {
  checkPart(write);
  const { metadata, spec, status } = write.body as Said;
  const users = (['services', 'leaving'] as const).map(
    (which) => [which, spec?.[which]?.map(({ namespace, name }) => `${namespace}/${name}`)] as const,
  );
  const toIngress = (ingress: readonly Ingress[] | null) =>
    ingress?.map(({ ip, ipMode }) => `${ip} ${ipMode}`);
  const lists = [
    ['finalizers', metadata?.finalizers],
    ...users,
    [
      'ingress',
      status?.loadBalancer === undefined ? undefined : (toIngress(status.loadBalancer.ingress) ?? []),
    ],
  ] as const;
  return [
    ...lists.flatMap(([name, list]) => tellList(name, list)),
    ...(status?.conditions ?? []).map(tellCondition),
  ];
}

const tellList = (name: string, list: readonly string[] | undefined) =>
  list === undefined ? [] : [`${name} ${list.join() || 'none'}`];

const tellCondition = ({ type, status, reason }: Condition) =>
  `${type === addressReady ? '' : `${type} `}${status} ${reason}`.trim();

/** A world, what the step in it is as `tell` has it, and a message in it. */
export type Decision = readonly [inventory: Inventory, told: string, message?: string];

/** A test for each title: the next step of a key, `apps/a` where none is given, is as it is told. */
export function testDecisions(titleToDecision: Readonly<Record<string, Decision>>, key?: StepKey): void {
  test.each(Object.entries(titleToDecision))('%s', (_, [inventory, told, message = '']) => {
    const step = decide(inventory, key);
    expect(tell(step)).toBe(told);
    expect(JSON.stringify(step)).toContain(message);
  });
}

export function getKind(name: string): Kind {
  const kind = kinds.find((each) => each.name === name);
  if (kind === undefined) throw new TypeError(`no kind: ${name}`);
  return kind;
}

/** The one next step of a key. Pure. */
export function nextStep({ kind, key }: StepKey, view: ClusterView): Step {
  return getKind(kind).next(key, view);
}
