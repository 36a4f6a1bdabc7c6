import * as z from 'zod/mini';
import {
  type Html,
  type Row,
  type Tone,
  type View,
  markup,
  printAnswer,
  printBar,
  printState,
  printTable,
  printTime,
} from '../../lib/http/html.ts';
import { type HostStatus, type VipStatus, type BackendStatus, toVrrpState } from './status.ts';
import { findOutage } from '../decide/decision.ts';
import { isBalanced } from '../../config/options.ts';
import { askLoopback } from '../../lib/http/client.ts';
import { classifyAddress, type Endpoint, formatEndpoint } from '../../lib/net.ts';
import { readJson, version } from '../../lib/text.ts';
import { describeDrift } from '../../lib/dialect.ts';
import { describeUnread } from '../../lib/kernel/port.ts';
import { tickMs } from '../../lib/sync-queue.ts';
import type { RecentLine } from '../../lib/telemetry/log.ts';
import type { Clock } from '../../lib/clock.ts';

/** Where an agent's page comes from. */
export interface OverviewSources {
  readonly node: string;
  readonly listen: Endpoint | null;
  readonly clock: Clock;
  /** Null before the first sync. */
  readonly readStatus: () => Promise<HostStatus | null>;
  /** What happened last, the oldest first. */
  readonly lines: readonly RecentLine[];
}

/** What all parts of the page are printed from. */
interface Facts extends Pick<OverviewSources, 'node' | 'lines'> {
  readonly status: HostStatus;
  readonly others: readonly Master[];
  readonly now: Date;
  readonly nowMs: number;
}

/** Answers what reads all that a page of this agent shows. Other masters are asked only by what it answers. */
export function createOverview(sources: OverviewSources): () => Promise<() => View> {
  const { node, listen, clock, readStatus, lines } = sources;
  const masters = new Masters(listen, clock);
  return async () => {
    const status = await readStatus();
    const others = status === null ? [] : await masters.askAll(status);
    return () =>
      status === null
        ? printWaiting(`agent on ${node}`)
        : printHost({ status, others, node, lines, now: clock.date(), nowMs: clock.now() });
  };
}

function printWaiting(program: string): View {
  const title = 'No sync has succeeded yet';
  return { title, program, sections: { answer: printAnswer('doubtful', title, []) } };
}

function printHost(facts: Facts): View {
  const { vips } = facts.status;
  const answers = vips.map((vip) => ({ vip, ...judgeVip(vip, facts) }));
  const worst = answers.toSorted((one, other) => ranks.indexOf(one.tone) - ranks.indexOf(other.tone))[0];
  return {
    title: worst === undefined ? 'vipnat' : `${nameVip(worst.vip)}: ${worst.text}`,
    program: `agent on ${facts.node}, ${version}`,
    sections: {
      answer: markup`${answers.map((answer) => printVip(answer, facts))}`,
      apiservers: markup`${vips.map((vip) => printApiservers(vip, facts))}`,
      masters: markup`${vips.map((vip) => printMasters(vip, facts))}`,
      recent: printRecent(facts),
    },
  };
}

const ranks: readonly Tone[] = ['bad', 'doubtful', 'good'];

interface Judgement {
  readonly tone: Tone;
  readonly text: string;
}

const nameVip = ({ decision }: VipStatus) => formatEndpoint(decision.vip);

/** A sync is due each minute. What is older is not how it is now. */
const outdatedMs = 2 * tickMs;

/** Since when the rules were not checked; null where that is as usual. */
function findUnchecked({ activity }: HostStatus, now: Date): string | null {
  const ageMs = activity?.syncedMsAgo ?? 0;
  return ageMs <= outdatedMs ? null : `${new Date(now.getTime() - ageMs).toISOString().slice(0, 19)}Z`;
}

/** Rules that were not read, and sources of apiservers that were refused: in the words of `vipnat status`. */
const listGaps = ({ assessment: { observation, refused } }: HostStatus) => [
  ...describeUnread(observation.unread).map(({ code, text }) => `[${code}] ${text}`),
  ...new Set(refused),
];

/** As `vipnat status` has it: what makes its exit status 2 is bad, or doubtful where the VIP works. What is not known is not good. */
function judgeVip({ decision, backends }: VipStatus, { status, now }: Facts): Judgement {
  const { assessment } = status;
  const [used, all] = [decision.backends.length, backends.length];
  const outage = findOutage(decision, assessment.health);
  if (!isBalanced(decision))
    return { tone: 'bad', text: "Not balanced: only the VIP holder's apiserver serves" };
  if (outage?.isTotal === true)
    return { tone: 'bad', text: `No apiserver is ready. All ${used} stay in use` };
  if (listDrift(assessment).length > 0) return { tone: 'bad', text: 'Not in sync' };
  const unchecked = findUnchecked(status, now);
  if (unchecked !== null) return { tone: 'doubtful', text: `Not checked since ${unchecked}` };
  const text = `Balanced over ${used === all ? '' : `${used} of `}${all} apiserver${all === 1 ? '' : 's'}`;
  return { tone: outage === null && listGaps(status).length === 0 ? 'good' : 'doubtful', text };
}

function listDrift({ plan, missingSwitches }: HostStatus['assessment']): string[] {
  return [...missingSwitches.map(({ name }) => `${name} is 0`), ...describeDrift(plan)];
}

const printSync = (isInSync: boolean) =>
  printState(isInSync ? 'good' : 'bad', isInSync ? 'in sync' : 'not in sync');

function printOwnSync({ status, now }: Facts): Html {
  const unchecked = findUnchecked(status, now);
  if (unchecked !== null) return printState('doubtful', `not checked since ${unchecked}`);
  const isInSync = listDrift(status.assessment).length === 0;
  return isInSync && listGaps(status).length > 0
    ? printState('doubtful', 'in sync, as far as rules are read')
    : printSync(isInSync);
}

function printVip({ vip, tone, text }: Judgement & { readonly vip: VipStatus }, facts: Facts): Html {
  const { status, now } = facts;
  const { mode, reason } = vip.decision;
  const drift = listDrift(status.assessment);
  const drained =
    status.drain && printState('doubtful', `drained since ${status.drain.since.toISOString().slice(0, 19)}Z`);
  const list = [
    printVipHolders(vip, facts),
    `mode ${mode}`,
    printOwnSync(facts),
    ...(drained === null ? [] : [drained]),
  ];
  const synced = new Date(now.getTime() - (status.activity?.syncedMsAgo ?? 0));
  const why = [reason, ...drift, ...listGaps(status), markup`Last sync ${printTime(synced, now)}`];
  return markup`<div class="answer"><p class="vip">${nameVip(vip)}</p>${printAnswer(tone, text, list, why)}</div>`;
}

/** Others are bad news only as far as all are known, and just now: a VIP may have moved since. */
function printVipHolders(vip: VipStatus, facts: Facts): Html {
  const others = listOthers(vip, facts);
  const found = others.map(({ answer }) => findVip(answer, vip));
  const names = others.flatMap(({ answer }, index) =>
    found[index]?.held === true ? [answer?.node ?? ''] : [],
  );
  if (vip.isHeld) names.unshift(`${facts.node} (this node)`);
  const isChecked = findUnchecked(facts.status, facts.now) === null;
  const areFresh = isChecked && others.every(({ askedAt }) => facts.nowMs - askedAt <= staleMs);
  const bad = areFresh ? 'bad' : 'doubtful';
  if (names.length > 0)
    return printState(names.length === 1 ? 'plain' : bad, `held by ${names.join(' and ')}`);
  const areAllKnown = areFresh && others.length > 0 && !found.includes(null);
  return areAllKnown ? printState('bad', 'held by no master') : markup`not held by this node`;
}

/** The other masters of a VIP. One with addresses of both families is another one for each. */
const listOthers = ({ backends }: VipStatus, { others }: Facts) =>
  others.filter(({ at }) => backends.some(({ endpoint }) => endpoint.address === at.address));

const stateToTone: Readonly<Record<BackendStatus['state'], Tone>> = {
  ...{ ready: 'good', warming: 'doubtful', draining: 'doubtful', dead: 'bad' },
};

function printApiservers(vip: VipStatus, { now }: Facts): Html {
  const all = vip.backends.reduce((sum, { flows }) => sum + (flows ?? 0), 0);
  const used = new Set(vip.backends.map(({ share }) => share).filter((share) => share !== 0));
  const rows = vip.backends.map(
    ({ endpoint, isLocal, state, isUncorroborated, reason, forMs, flows, share }): Row => {
      const below = [
        reason,
        used.size < 2 || share === null ? '' : `${Math.round(share * 100)} % of new connections`,
      ];
      return {
        cells: [
          `${formatEndpoint(endpoint)}${isLocal ? ' (this node)' : ''}`,
          isUncorroborated ? printState('bad', 'suspected') : printState(stateToTone[state], state),
          forMs === null ? '' : printTime(new Date(now.getTime() - forMs), now),
          flows === null ? 'not known' : markup`${flows}${printBar(flows, all)}`,
        ],
        below: below.filter((text) => text !== ''),
      };
    },
  );
  return printTable(
    `Apiservers behind ${nameVip(vip)}`,
    ['Apiserver', 'State', 'Since', '>Connections'],
    rows,
  );
}

function printMasters(vip: VipStatus, facts: Facts): Html {
  const others = listOthers(vip, facts);
  const { vrid = null, priority = null } = vip.keepalived.instance ?? {};
  const own = {
    held: vip.isHeld,
    mode: vip.decision.mode,
    keepalived: { state: toVrrpState(vip), vrid, priority },
  };
  const rows = [
    printMaster(`${facts.node} (this node)`, own, printOwnSync(facts)),
    ...others.map(({ at, answer, askedAt }): Row => {
      const found = findVip(answer, vip);
      if (answer !== null && found !== null)
        return printMaster(`${answer.node} (${at.address})`, found, printSync(answer.inSync));
      const unanswered = `no agent of this VIP answers at ${formatEndpoint(at)}. That says nothing of its apiserver`;
      const why = askedAt === -Infinity ? `only ${maxMasters} masters are asked` : unanswered;
      return { cells: [at.address, printState('plain', 'not known'), ''], below: [why] };
    }),
  ];
  const table = printTable(`Masters of ${nameVip(vip)}`, ['Master', 'VIP', 'keepalived'], rows);
  const why = 'Other masters are asked only where agents listen at more than a loopback address (--listen).';
  return markup`${table}${others.length > 0 ? null : markup`<p class="why">${why}</p>`}`;
}

function printMaster(
  name: string,
  { held, mode, keepalived: { state, vrid, priority } }: MasterVip,
  sync: Html,
): Row {
  const keepalived = state === 'FAULT' ? printState('bad', state) : (state ?? 'not known');
  const numbers = vrid === null ? '' : `, keepalived: vrid ${vrid}, priority ${priority ?? 'not known'}`;
  return {
    cells: [name, held ? printState('good', 'held here') : 'not here', keepalived],
    below: [markup`${sync}, mode ${mode}${numbers}`],
  };
}

const levelToTone = { error: 'bad', warn: 'doubtful', info: 'plain', debug: 'plain' } as const;

function printRecent({ lines, now }: Facts): Html {
  const items = lines.toReversed().map(({ at, level, message }) => {
    const text = level === 'info' ? message : markup`${printState(levelToTone[level], level)} ${message}`;
    return markup`<li>${printTime(at, now)}<span>${text}</span></li>`;
  });
  return markup`<h2>What happened last</h2><ol>${items}</ol>`;
}

const text = z.string().check(z.maxLength(200));

const masterVip = z.object({
  held: z.boolean(),
  mode: text,
  keepalived: z.object({
    state: z.nullable(text),
    vrid: z.nullable(z.number()),
    priority: z.nullable(z.number()),
  }),
});

type MasterVip = z.infer<typeof masterVip>;

/** What is shown of another master's `/status`. */
const masterAnswer = z.object({
  node: text,
  inSync: z.boolean(),
  vips: z.array(z.extend(masterVip, { vip: text })),
});

/** zod throws where an array has tens of thousands of faults, so its length is checked first. */
const boundedAnswer = z.pipe(
  z.looseObject({ vips: z.array(z.unknown()).check(z.maxLength(64)) }),
  masterAnswer,
);

/** Another master, as its agent says. */
interface Master {
  readonly at: Endpoint;
  /** Null where no agent answers: it may listen at a loopback address only. */
  readonly answer: z.infer<typeof masterAnswer> | null;
  readonly askedAt: number;
}

function findVip(answer: Master['answer'], vip: VipStatus): MasterVip | null {
  return answer?.vips.find((one) => one.vip === nameVip(vip)) ?? null;
}

/** Masters that are asked, and after how long again. Who asks waits in place of an answer that is older than `staleMs`. */
const [maxMasters, freshMs, staleMs] = [9, 2000, 2500];

const answerLimits = { limitMs: 1000, maxLength: 50_000 };

const unknown = { answer: null, askedAt: -Infinity, asking: null };

interface Known extends Master {
  readonly asking: Promise<void> | null;
}

/** Asks the agents at the other apiservers' addresses, at the port of this one. Each is asked one question at a time. */
class Masters {
  readonly #port: number | null;
  readonly #clock: Clock;
  readonly #known = new Map<string, Known>();

  constructor(listen: Endpoint | null, clock: Clock) {
    const scope = listen && classifyAddress({ family: listen.family, text: listen.address });
    this.#port = listen === null || scope === 'loopback' ? null : listen.port;
    this.#clock = clock;
  }

  /** What is known of them now. Waits only for those of which nothing is, or nothing new. */
  async askAll({ vips }: HostStatus): Promise<readonly Master[]> {
    const port = this.#port;
    if (port === null) return [];
    const others = vips.flatMap(({ backends }) => backends.filter(({ isLocal }) => !isLocal));
    const all = new Map(others.map(({ endpoint }) => [endpoint.address, { ...endpoint, port }]));
    const chosen = [...all.values()].slice(0, maxMasters);
    for (const address of this.#known.keys()) if (!all.has(address)) this.#known.delete(address);
    await Promise.all(chosen.map((at) => this.#askAgain(at)));
    return [...all.values()].map((at) => this.#known.get(at.address) ?? { ...unknown, at });
  }

  async #askAgain(at: Endpoint): Promise<void> {
    const known = this.#known.get(at.address) ?? { ...unknown, at };
    const age = this.#clock.now() - known.askedAt;
    const asking = known.asking ?? (age < freshMs ? null : this.#ask(at));
    this.#known.set(at.address, { ...known, asking });
    if (age > staleMs) await asking;
  }

  /** Never rejects: whatever another program answers, it is asked again. */
  async #ask(at: Endpoint): Promise<void> {
    const answer = await askMaster(at).catch(() => null);
    this.#known.set(at.address, { at, answer, askedAt: this.#clock.now(), asking: null });
  }
}

async function askMaster(at: Endpoint): Promise<Master['answer']> {
  const reply = await askLoopback(`http://${formatEndpoint(at)}/status`, answerLimits);
  return boundedAnswer.safeParse(readJson(reply?.text ?? '')).data ?? null;
}
