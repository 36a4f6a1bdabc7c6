import type { Node } from '../engine/explore.ts';
import type { World } from './world.ts';
import { type KernelState, oncePerKernel } from './kernels.ts';
import { formatEndpoint } from '../../../../lib/net.ts';
import { seats, type Seat, followVip, untranslated } from './packet.ts';
import { countPins as countPinsIn, listRules } from '../../property/tables.ts';
import { nft, clusterIp } from './small-world.ts';
import { serviceChain } from '../../../../lib/kube-proxy/read.ts';

/** One look and all that it does, when nobody disturbs it: I11 and I12. */
export function checkRound(start: Node<World>): string[] {
  const kernels: KernelState[] = [start.state.kernel];
  let node = start;
  do {
    if (node.next === null) throw new Error('a round is checked after it was followed');
    node = node.next;
    kernels.push(node.state.kernel);
  } while (node.state.process.todo.length > 0);
  const { decided, memory } = node.state.process;
  if (decided === null) return ['a look decides nothing'];
  const wanted = new Set(decided.backends.map(formatEndpoint));
  const after = kernels.at(-1) ?? start.state.kernel;
  return [
    ...(wantsChainGone(start.state.kernel) && countPins(after) > 0
      ? ['a jump pins kube-proxy’s chain (I11)']
      : []),
    ...(decided.mode === 'passthrough'
      ? []
      : seats.flatMap((seat) => checkSeat(kernels, seat, wanted).map((complaint) => `${complaint} (I12)`))),
    ...(memory.vips.size === 0 ? ['a look remembers nothing'] : []),
  ];
}

function checkSeat(
  [before, ...later]: readonly KernelState[],
  seat: Seat,
  wanted: ReadonlySet<string>,
): string[] {
  if (before === undefined) return [];
  const ends = followVip(before)[seat];
  return [...new Set(later)].flatMap((kernel) => {
    const now = followVip(kernel)[seat];
    const wasBalanced = !['nowhere', 'dropped', untranslated].some((end) => ends.has(end));
    const wrong = [...now].filter(
      (end) => !wanted.has(end) && (wasBalanced || !isNoEnd(end)) && !ends.has(end),
    );
    return wrong.length === 0 ? [] : [`a connection from ${seat} goes to ${wrong.join(', ')} meanwhile`];
  });
}

function isNoEnd(end: string): boolean {
  return end === 'nowhere' || end === untranslated;
}

/** Whether kube-proxy has shown that it wants its chain gone, read without the product's help. */
export const wantsChainGone = oncePerKernel(({ kernel }) => {
  const rules = (table: string, name: string) => listRules(kernel, nft, table, name);
  const isRejected = rules('filter', 'KUBE-SERVICES').some(
    (rule) => rule.includes(`-d ${clusterIp.address}/32 `) && rule.includes('-j REJECT'),
  );
  const hasEdge = rules('nat', 'KUBE-SERVICES').some((rule) => rule.endsWith(`-j ${serviceChain}`));
  const isHooked = rules('nat', 'PREROUTING').some((rule) => rule.endsWith('-j KUBE-SERVICES'));
  return isRejected || !hasEdge || !isHooked;
});

/** How many rules of ours lead into kube-proxy's chain. */
export const countPins = oncePerKernel(({ kernel }) => countPinsIn(kernel, nft));
