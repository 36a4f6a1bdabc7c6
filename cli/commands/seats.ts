import {
  type SeatsView,
  type SeatView,
  listMisplaced,
  createSeatsApi,
  type MoveOptions,
  drainNode,
  undrainNode,
  rebalanceSeats,
} from '../seats.ts';
import {
  type Screen,
  plainScreen,
  formatTable,
  layOutText,
  type Part,
  keepTogether,
  joinLines,
  describeNoAnswer,
} from '../output.ts';
import { formatDrained } from '../../lib/api/node.ts';
import { formatDocument, findNearest, exitStatuses, quoteText } from '../../lib/text.ts';
import {
  json,
  color,
  type Words,
  defineCommand,
  type CommandContext,
  type OptionsOf,
  systemNamespace,
  checkNamespace,
  servicesNamespace,
  context,
} from '../command.ts';
import { safeParse } from 'zod/mini';
import { nodeName } from '../../config/options.ts';
import { findClusterRoute, findSystemNamespace } from '../services/read.ts';
import { systemClock } from '../../lib/clock.ts';

const columns = ['SEAT', 'HOLDER', '>ADDRESSES', 'MAY HOLD IT'];

/** What `vipnat seats` prints: each seat with who holds it and who may, then what a person may want to know. */
export function formatSeats(view: SeatsView, screen: Screen = plainScreen): string {
  const lines =
    view.seats.length === 0
      ? ['no seat: no AddressPool has one']
      : formatTable(columns, view.seats.map(toRow), screen);
  const notes = listNotes(view).flatMap((note) => layOutText('', note, screen));
  return joinLines([...lines, ...(notes.length === 0 ? [] : ['', ...notes])]);
}

function toRow(seat: SeatView): Part[] {
  return [
    seat.seat,
    {
      text: seat.seatHolders.join(' and ') || 'nobody',
      tone: seat.seatHolders.length === 1 ? 'good' : 'bad',
    },
    String(seat.addresses),
    seat.nodes.join(', ') || 'no node',
  ];
}

function listNotes(view: SeatsView): string[] {
  const misplaced = listMisplaced(view).map(({ seat }) => seat);
  const advice = `another node comes first. To move them: ${keepTogether('vipnat seats rebalance')}`;
  return [
    ...view.nodes.filter((one) => !one.isLiving).map(describeNoAnswer),
    ...view.nodes
      .filter(({ mode, isLiving }) => mode === 'none' && isLiving)
      .map(({ node }) => `${node} can serve no Service: it holds no seat`),
    ...view.nodes.flatMap(({ node, inUse }) =>
      inUse.map((address) => `another host on the network of ${node} answers for ${address}`),
    ),
    ...view.nodes
      .filter(({ isLiving }) => isLiving)
      .flatMap(({ node, unheld = {} }) =>
        Object.entries(unheld)
          // A node also says it of seats that it may not hold now.
          .filter(([name]) => view.seats.find(({ seat }) => seat === name)?.nodes.includes(node) !== false)
          .map(([name, why]) => `${node} cannot hold ${name}: ${why}`),
      ),
    ...[...view.drained]
      .map(([pool, drained]) => ({ pool, text: formatDrained(drained) }))
      .flatMap(({ pool, text }) => (text === null ? [] : [`drained in pool ${pool}: ${text}`])),
    ...(misplaced.length === 0 ? [] : [`${misplaced.join(', ')}: ${advice}`]),
  ];
}

/** What `vipnat seats --json` prints. */
export function formatSeatsJson({ seats, nodes, drained }: SeatsView): string {
  return formatDocument({
    version: 1,
    seats: seats.map(({ seat, pool, index, anchor, vrid, addresses, seatHolders, ...more }) => ({
      ...{ seat, pool, index, anchor, vrid, addresses, seatHolders, nodes: more.nodes },
    })),
    nodes: nodes.map(({ node, mode, msSinceRenewal, inUse, unheld = {} }) => ({
      ...{ node, mode, secondsSinceRenewal: msSinceRenewal === null ? null : msSinceRenewal / 1000 },
      addressesInUse: inUse,
      cannotHold: Object.entries(unheld).map(([name, why]) => ({ name, why })),
    })),
    drained: [...drained].flatMap(([pool, all]) => all.map(({ node, seat }) => ({ pool, node, seat }))),
  });
}

const flags = { systemNamespace, context, json, color };

/** What it does, the default first. */
const actions = ['list', 'drain', 'undrain', 'rebalance'] as const;

/** What to do, and with which node; empty where there is none. */
interface Asked {
  readonly action: (typeof actions)[number];
  readonly node: string;
}

const takesNode = (action: string) => action === 'drain' || action === 'undrain';

const words: Words<Asked> = {
  // Whatever follows an action that there is not is a part of the mistake.
  count: ([word = 'list']) =>
    takesNode(word) ? 2 : actions.some((action) => action === word) ? 1 : Infinity,
  choices: actions.filter((action) => action !== 'list'),
  read: ([word = 'list', node], { isUnclear, report }) => {
    const action = actions.find((candidate) => candidate === word);
    if (!isUnclear && action === undefined) report(explainAction(word));
    if (!isUnclear && takesNode(word) && !safeParse(nodeName, node).success) report(explainNode(word, node));
    return { action: action ?? 'list', node: takesNode(word) ? (node ?? '') : '' };
  },
};

/** `vipnat seats`. */
export const seats = defineCommand({
  usage: '[drain|undrain NODE|rebalance] [options]',
  help: `
Examples:
  vipnat seats --context production
  vipnat seats --json
  vipnat seats drain worker-1        the node gives up its seats, and gets none
  vipnat seats undrain worker-1      the node may hold seats again
  vipnat seats rebalance             each seat goes to the first of its nodes

A seat is a part of a pool's addresses, which one node holds at a time. seats reads the
Kubernetes API, with the credentials that kubectl takes, and asks no node. drain, undrain
and rebalance change an annotation of each AddressPool, and wait until the seats have moved.
Exit status: 0 each seat has one node, 1 failed, 2 one has none or two,
78 bad configuration.`,
  flags,
  words,
  configOptions: ['kubeconfig', 'logLevel'],
  check: ({ options }) => checkNamespace(options.systemNamespace, servicesNamespace, '--system-namespace'),
  run: moveAndPrint,
});

function explainAction(word: string): string {
  const choices = actions.filter((action) => action !== 'list');
  const nearest = findNearest(word, choices) ?? 'drain';
  const example = nearest === 'rebalance' ? nearest : `${nearest} worker-1`;
  return `${quoteText(word)} is none of ${choices.join(', ')}. Example: vipnat seats ${example}`;
}

function explainNode(action: string, node: string | undefined): string {
  const what =
    node === undefined ? `seats ${action} needs a node` : `${quoteText(node)} is not a name of a node`;
  return `${what}. Example: vipnat seats ${action} worker-1`;
}

async function moveAndPrint(context: CommandContext<OptionsOf<typeof flags> & Asked>): Promise<number> {
  const { config, options, screen, stdout, stderr } = context;
  const route = findClusterRoute(config, options.context, systemClock);
  const namespace = await findSystemNamespace(route, systemClock, options.systemNamespace);
  const api = createSeatsApi(route, systemClock, namespace ?? servicesNamespace);
  const print = (words: string) => {
    stderr(`${words}\n`);
  };
  await move({ api, clock: systemClock, print }, options);
  const view = await api.view();
  stdout(options.json ? formatSeatsJson(view) : formatSeats(view, screen()));
  return view.seats.length > 0 && view.seats.every(({ seatHolders }) => seatHolders.length === 1)
    ? exitStatuses.done
    : exitStatuses.found;
}

async function move(moving: MoveOptions, { action, node }: Asked): Promise<void> {
  if (action === 'drain') await drainNode(moving, node);
  if (action === 'undrain') await undrainNode(moving, node);
  if (action === 'rebalance' && (await rebalanceSeats(moving)) === 0)
    moving.print('every seat is where it is to be');
}
