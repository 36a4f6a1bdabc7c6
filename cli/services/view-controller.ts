import { electionLease } from '../../lib/services/names.ts';
import { type Lease } from '../../lib/services/node-report.ts';
import { judgeRenewal } from '../seats/read-reports.ts';

/** Who gives addresses to Services. */
export interface ControllerView {
  readonly isLeading: boolean;
  /** Who leads, or did last; null where no controller ever has. */
  readonly holder: string | null;
  /** Since it renewed its Lease, by this host's date; null where nobody has. */
  readonly silentMs: number | null;
}

/** Lasts for 15 s where the Lease does not say. Source: client-go, tools/leaderelection. */
const defaultSeconds = 15;

/** Which controller leads, by its Lease. Pure. */
export function viewController(leases: readonly Lease[], nowMs: number): ControllerView {
  const spec = leases.find(({ metadata }) => metadata.name === electionLease)?.spec;
  const durationMs = (spec?.leaseDurationSeconds ?? defaultSeconds) * 1000;
  const { silentMs, isLiving } = judgeRenewal(spec?.renewTime ?? '', durationMs, nowMs);
  const holder = spec?.holderIdentity ?? '';
  return { isLeading: isLiving && holder !== '', holder: holder === '' ? null : holder, silentMs };
}
