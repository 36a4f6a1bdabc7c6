import { hangingMs } from '../../lib/services/host-balancer.ts';
import { type Answer, toText } from '../../lib/http/page.ts';
import { type BalancerState } from './state.ts';

/** What `/healthz` answers. Pure. */
export function judgeBalancerHealth({ behindMs }: Pick<BalancerState, 'behindMs'>): Answer {
  if (behindMs < hangingMs) return toText(200, 'ok');
  return toText(500, `the balancer hangs: its sync is ${Math.round(behindMs / 1000)} s behind`);
}

/** What `/readyz` answers: whether this node's table counts. The API away changes nothing of that. Pure. */
export function judgeBalancerReadiness({ mode }: Pick<BalancerState, 'mode'>): Answer {
  if (mode === null) return toText(503, 'not ready: the tables are not written yet');
  if (mode === 'direct') return toText(200, 'ok');
  return toText(503, `not ready: the tables do not count on this node (${mode})`);
}
