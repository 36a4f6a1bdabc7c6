import { systemClock } from '../../lib/control/clock.ts';
import { exitStatuses } from '../../lib/text/exit-status.ts';
import { formatSeatsJson } from '../format/json/seats-json.ts';
import { formatSeats } from '../format/screens/seats.ts';
import { safeParse } from 'zod/mini';
import { findNearest } from '../../config/nearest.ts';
import { quoteText } from '../../config/setting.ts';
import { nodeName } from '../../config/values.ts';
import { type CommandContext, defineCommand, type Words } from '../command/command.ts';
import { color, json } from '../command/shared-flags.ts';
import { type OptionsOf, orElse, text } from '../flags/flag.ts';
import { servicesNamespace } from '../generate/manifest/options.ts';
import { checkNamespace } from '../generate/manifest/problems.ts';
import { createSeatsApi } from '../seats/api-seats.ts';
import { drainNode, type MoveOptions, rebalanceSeats, undrainNode } from '../seats/move-seats.ts';
import { findClusterRoute } from '../services/cluster-route.ts';

const flags = {
  namespace: text(
    'NAME',
    `where the balancers run (default: ${servicesNamespace})`,
    orElse(servicesNamespace),
  ),
  json,
  color,
};

/** What it does, the default first. */
const actions = ['list', 'drain', 'undrain', 'rebalance'] as const;

/** What to do, and with which node; empty where there is none. */
interface Asked {
  readonly action: (typeof actions)[number];
  readonly node: string;
}

const takesNode = (action: string) => action === 'drain' || action === 'undrain';

const words: Words<Asked> = {
  count: ([word = 'list']) => (takesNode(word) ? 2 : 1),
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
  vipnat seats --kubeconfig /etc/kubernetes/admin.conf
  vipnat seats --json
  vipnat seats drain worker-1        the node gives up its seats, and gets none
  vipnat seats undrain worker-1      the node may hold seats again
  vipnat seats rebalance             each seat goes to the first of its nodes

A seat is a part of a pool's addresses, which one node holds at a time. seats reads the
Kubernetes API and asks no node. drain, undrain and rebalance change an annotation of
each AddressPool, and wait until the seats have moved.
Exit status: 0 each seat has one node, 1 failed, 2 one has none or two,
78 bad configuration.`,
  flags,
  words,
  heeds: ['kubeconfig', 'logLevel'],
  check: ({ options: { namespace } }) => checkNamespace(namespace, servicesNamespace),
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

/**
 * Who holds which seat, by the API alone; or moves seats.
 * @throws VipnatError API_CREDENTIALS_INVALID without credentials, SEATS_NOT_MOVED, and those of a request to the API
 */
async function moveAndPrint({
  config,
  options,
  screen,
  stdout,
  stderr,
}: CommandContext<OptionsOf<typeof flags> & Asked>): Promise<number> {
  const route = findClusterRoute(config, 'seats');
  const clock = systemClock;
  const api = createSeatsApi({ route, clock, namespace: options.namespace });
  await move(
    {
      api,
      clock,
      say: (words) => {
        stderr(`${words}\n`);
      },
    },
    options,
  );
  const view = await api.view();
  stdout(options.json ? formatSeatsJson(view) : formatSeats(view, screen()));
  return view.seats.every(({ holders }) => holders.length === 1) ? exitStatuses.done : exitStatuses.found;
}

async function move(moving: MoveOptions, { action, node }: Asked): Promise<void> {
  switch (action) {
    case 'list':
      return;
    case 'drain':
      await drainNode(moving, node);
      return;
    case 'undrain':
      await undrainNode(moving, node);
      return;
    case 'rebalance':
      if ((await rebalanceSeats(moving)) === 0) moving.say('every seat is where it is to be');
  }
}
