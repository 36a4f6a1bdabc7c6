import { isReachedBy, type ListeningAddress } from '../../lib/kernel/host/listeners.ts';
import { type Assessment } from '../decide/assess.ts';
import { canServe } from '../decide/can-serve.ts';
import { type Decision } from '../decide/decision.ts';
import { isBalanced } from '../../config/way.ts';

/** Notified of whether listening sockets could be read. */
export interface ListeningListener {
  /** After an attempt to read what listens here: whether it succeeded. */
  listeningRead(isRead: boolean): void;
}

/** What a judgement needs of the world. */
export interface ServingPorts {
  /** What listens on this host; null where that cannot be read. */
  readonly readListening: () => Promise<readonly ListeningAddress[] | null>;
  readonly report: ListeningListener;
  /** Whether the VIPs are to leave this host, as it is drained; they are not where left out. */
  readonly isLeaving?: () => Promise<boolean>;
}

/** What is judged: an assessment, or what stands for one. */
export interface Judged extends Pick<Assessment, 'health'> {
  readonly decisions: readonly Pick<Decision, 'vip' | 'way' | 'backends'>[];
  readonly observation: Pick<Assessment['observation'], 'addresses'>;
}

/**
 * Whether this node may hold the VIPs after a look, by the health that the decisions rest on: a later one may have lost just
 * those who were chosen. What listens here is read only where a VIP is left to its holder; unread, it is taken to listen.
 */
export async function judgeServing(
  { readListening, report, isLeaving: askLeaving }: ServingPorts,
  { decisions, observation: { addresses }, health }: Judged,
): Promise<boolean> {
  const isLeaving = (await askLeaving?.()) ?? false;
  const judge = (listening: readonly ListeningAddress[] | null) =>
    canServe({
      decisions,
      addresses,
      health,
      isLeaving,
      isListening: (vip) => listening === null || listening.some((socket) => isReachedBy(vip, socket)),
    });
  if (decisions.every(isBalanced)) return judge(null);
  const listening = await readListening();
  report.listeningRead(listening !== null);
  return judge(listening);
}
