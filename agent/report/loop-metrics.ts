import { type Endpoint, formatEndpoint } from '../../lib/address/endpoint.ts';
import { errorCodes, findErrorCode, VipnatError } from '../../lib/text/errors.ts';
import { isOutdated } from '../../lib/netfilter/rules/drift.ts';
import { type Assessment } from '../decide/assess.ts';
import { type Decision } from '../decide/decision.ts';
import { describeWanted } from '../decide/describe.ts';
import { type EndpointHealth } from '../health/endpoint-health.ts';
import { type LoopObserver } from './loop-observer.ts';
import { type Meter } from '../../lib/telemetry/meter.ts';
import { type Way } from '../../config/way.ts';

/** What a write was for. */
const writeReasons = ['decision', 'repair', 'update'] as const;

/** Of what an agent can meet while it runs; the others end it before. */
const lastingCodes = errorCodes.filter((code) => new VipnatError(code, '').retry);

/** The code of a failure that is none of ours. */
const unknownCode = findErrorCode(undefined);

/** Counts what the loop does and what becomes of the apiservers. What can happen counts from 0: a rate needs a first value. */
export class LoopMetrics implements Partial<LoopObserver> {
  readonly #meter: Meter;
  readonly #vipToWay = new Map<string, Way>();
  #reason: (typeof writeReasons)[number] = 'decision';
  /** What was last found in sync with. */
  #wanted = '';

  constructor(meter: Meter, vips: readonly Endpoint[]) {
    this.#meter = meter;
    for (const reason of writeReasons) meter.count('vipnat_writes_total', { reason }, 0);
    for (const code of [...lastingCodes, unknownCode]) meter.count('vipnat_failures_total', { code }, 0);
    for (const vip of vips.map(formatEndpoint)) {
      meter.count('vipnat_way_changes_total', { vip }, 0);
      meter.count('vipnat_flow_resets_total', { vip }, 0);
    }
  }

  looked({ health }: Pick<Assessment, 'health'>, tookMs: number): void {
    this.#meter.time('vipnat_look_duration_seconds', tookMs / 1000);
    for (const apiserver of health.keys())
      this.#meter.count('vipnat_apiserver_deaths_total', { apiserver }, 0);
  }

  drift(assessment: Assessment): void {
    const { plan } = assessment;
    const isDecided = this.#wanted !== describeWanted(assessment);
    const isRepair = plan.tables.some(({ drift }) => drift.some((one) => !isOutdated(one)));
    this.#reason = isDecided ? 'decision' : isRepair ? 'repair' : 'update';
  }

  written(): void {
    this.#meter.count('vipnat_writes_total', { reason: this.#reason });
  }

  inSync(assessment: Pick<Assessment, 'decisions' | 'answerers'>): void {
    this.#wanted = describeWanted(assessment);
    for (const decision of assessment.decisions) this.#noteWay(decision);
  }

  fight(): void {
    this.#meter.count('vipnat_repairs_postponed_total', {});
  }

  failure(error: unknown): void {
    this.#meter.count('vipnat_failures_total', { code: findErrorCode(error) });
  }

  flowsReset(vip: Endpoint, _backend: Endpoint, count: number): void {
    this.#meter.count('vipnat_flow_resets_total', { vip: formatEndpoint(vip) }, count);
  }

  flowsNotReset(error: unknown): void {
    this.failure(error);
  }

  localClientsNotKept(error: unknown): void {
    this.failure(error);
  }

  notSwitched(problem: VipnatError): void {
    this.failure(problem);
  }

  notWritten(problem: VipnatError): void {
    this.failure(problem);
  }

  /** After any change of an apiserver's health. */
  healthChanged(before: EndpointHealth, after: EndpointHealth): void {
    if (before.state === 'dead' || after.state !== 'dead') return;
    this.#meter.count('vipnat_apiserver_deaths_total', { apiserver: formatEndpoint(after.endpoint) });
  }

  #noteWay(decision: Decision): void {
    const vip = formatEndpoint(decision.vip);
    const before = this.#vipToWay.get(vip);
    this.#vipToWay.set(vip, decision.way);
    if (before !== undefined && before !== decision.way)
      this.#meter.count('vipnat_way_changes_total', { vip });
  }
}
