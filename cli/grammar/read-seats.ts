import * as z from 'zod/mini';
import { findNearest } from '../../config/nearest.ts';
import { quoteText } from '../../config/setting.ts';
import { nodeName } from '../../config/values.ts';
import { servicesNamespace } from '../generate/manifest/options.ts';
import { seatsActions } from './command-context.ts';
import { type Found, type Own } from './read-command.ts';

/** `seats`, whose words say what to do. */
export function readSeats(
  { namespace = servicesNamespace, json = false }: Own,
  words: readonly string[],
): Found {
  const [word = 'list', node = ''] = words;
  const action = seatsActions.find((candidate) => candidate === word);
  const takesNode = action === 'drain' || action === 'undrain';
  return {
    command: {
      name: 'seats',
      options: { action: action ?? 'list', node: takesNode ? node : '', namespace, json },
    },
    wordCount: takesNode ? 2 : 1,
    problems: findProblems(words),
  };
}

function findProblems(words: readonly string[]): string[] {
  const [word = 'list', node] = words;
  // Words beside an unknown option may be its values: then only the option is told.
  if (words.some((other) => other.startsWith('-')) || word === 'list' || word === 'rebalance') return [];
  if (word === 'drain' || word === 'undrain') return checkNode(word, node);
  const actions = seatsActions.filter((action) => action !== 'list');
  const nearest = findNearest(word, actions) ?? 'drain';
  const example = nearest === 'rebalance' ? nearest : `${nearest} worker-1`;
  return [`${quoteText(word)} is none of ${actions.join(', ')}. Example: vipnat seats ${example}`];
}

function checkNode(action: string, node: string | undefined): string[] {
  if (node !== undefined && z.safeParse(nodeName, node).success) return [];
  const what =
    node === undefined ? `seats ${action} needs a node` : `${quoteText(node)} is not a name of a node`;
  return [`${what}. Example: vipnat seats ${action} worker-1`];
}
