import { toPrintableJson } from '../../lib/text/printable.ts';
import { formatEndpoint } from '../../lib/address/endpoint.ts';
import { type HostStatus, isKeepalivedSeen, toVrrpState, type VipStatus } from './host-status.ts';
import { toHostAnswer } from './host-answer.ts';

/**
 * `status --json`, version 1: what `plan --json` says without the transactions, then how the VIPs are, then `more`. Ends
 * with a newline.
 */
export function formatStatusJson(status: HostStatus, node: string, now: Date, more: object = {}): string {
  const { agent, assessment } = status;
  const host = toHostAnswer(assessment, node);
  const answer = {
    ...host,
    vips: host.vips.map((vip, index) => ({ ...vip, ...describeVip(status.vips[index], now) })),
    agent:
      agent === null
        ? { running: false, pid: null, since: null }
        : { running: true, pid: agent.pid, since: agent.since },
    drainedSince: status.drain?.since.toISOString() ?? null,
    vipStaysSince: status.drain?.vipStaysSince?.toISOString() ?? null,
    ...more,
  };
  return `${toPrintableJson(answer, 2)}\n`;
}

function describeVip(vip: VipStatus | undefined, now: Date): object {
  if (vip === undefined) return {};
  const { backends, keepalived } = vip;
  return {
    backends: backends.map(({ endpoint, isLocal, state, reason, forMs, flows, share }) => ({
      address: formatEndpoint(endpoint),
      local: isLocal,
      state,
      reason,
      since: forMs === null ? null : new Date(now.getTime() - forMs).toISOString(),
      flows,
      share,
    })),
    keepalived: {
      running: isKeepalivedSeen(vip),
      vrid: keepalived.instance?.vrid ?? null,
      state: toVrrpState(vip),
      priority: keepalived.instance?.priority ?? null,
    },
  };
}
