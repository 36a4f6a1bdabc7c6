import { findUntrackedPackets, type UntrackedPackets } from './untracked-packets.ts';
import { readEarlyRules } from '../../lib/kernel/real/early-rules.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { type UnreadText } from '../../lib/kernel/real/unread.ts';
import type { HostLook } from '../../agent/main.ts';

/** The rules of this host that keep packets of balanced connections from being tracked, or why nobody knows. */
export async function readUntracked(
  assessment: HostLook,
): Promise<{ readonly untracked: readonly UntrackedPackets[]; readonly gaps: readonly UnreadText[] }> {
  try {
    return { untracked: findUntrackedPackets(await readEarlyRules(), assessment), gaps: [] };
  } catch (error) {
    if (!(error instanceof VipnatError)) throw error;
    const text = `not checked: rules that keep packets from being tracked (${error.message})`;
    return { untracked: [], gaps: [{ code: error.code, text }] };
  }
}
