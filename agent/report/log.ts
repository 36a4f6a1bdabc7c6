import type { Logger, LogFields } from '../../lib/telemetry/log.ts';
import type { EventRecorder, EventReason } from '../../lib/telemetry/events.ts';
import { type EndpointHealth, isEndLasting, type UnconfirmedFailure, endVerdict } from '../health/judge.ts';
import { formatEndpoint, type Endpoint } from '../../lib/net.ts';
import { isLivenessOnly } from '../health/usable.ts';
import { formatAge } from '../../lib/text.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Cause, LoopObserver } from './events.ts';
import { describeUnread, type UnreadRules } from '../../lib/kernel/port.ts';
import type { Assessment, MissingSwitch, Decision, RouteChange } from '../decide/decision.ts';
import { describeWanted, describeMode } from '../decide/mode.ts';
import { describeDrift, type Plan, isOutdated } from '../../lib/dialect.ts';
import { VipnatError, findErrorCode } from '../../lib/errors.ts';
import { isBalanced } from '../../config/options.ts';

/** One apiserver's health as log lines and events: each fall and return; the steps between at level debug. */
export class HealthLog {
  readonly #logger: Logger;
  readonly #events: EventRecorder;
  readonly #endpointToFall = new Map<string, number>();
  /** Apiservers whose process seems to have ended, to the line that reports it. */
  readonly #endpointToEnd = new Map<string, string>();
  readonly #uncorroborated = new Set<string>();
  #isLivenessReported = false;

  constructor(logger: Logger, events: EventRecorder) {
    this.#logger = logger;
    this.#events = events;
  }

  /** After any change of a state, or of a failure that nobody confirms, or when an end has lasted. */
  report(before: EndpointHealth, after: EndpointHealth): void {
    const isNewlyDrained = after.isDrained && !before.isDrained;
    if (before.state !== after.state || isNewlyDrained) this.#reportState(before, after);
    if (before.unconfirmedFailure === null && after.unconfirmedFailure !== null)
      this.#reportUncorroborated(after, after.unconfirmedFailure);
    if (before.unconfirmedFailure !== null && after.unconfirmedFailure === null) this.#reportCleared(after);
    if (isEndLasting(after)) this.#reportEnd(formatEndpoint(after.endpoint), after.state);
    if (isLivenessOnly(after)) this.#reportLiveness(after);
  }

  /** One is listed no more: what comes when it is again is a new story. */
  forget({ endpoint }: EndpointHealth): void {
    const name = formatEndpoint(endpoint);
    this.#endpointToFall.delete(name);
    this.#endpointToEnd.delete(name);
    if (this.#uncorroborated.delete(name) && this.#uncorroborated.size === 0)
      this.#logger.info(`${name} is no longer listed. No other apiserver is suspected`);
  }

  /** An unlisted apiserver has this many connections: it is probed from now on. */
  departed(endpoint: Endpoint, connections: number): void {
    const [noun, pronoun] = connections === 1 ? ['connection', 'it ends'] : ['connections', 'they end'];
    this.#logger.info(
      `${formatEndpoint(endpoint)} is no longer listed, but has ${connections} open ${noun}. vipnat probes it until ${pronoun}`,
    );
  }

  /** The one of this text has none any more, or is listed again. */
  ended(text: string): void {
    this.#logger.debug(`vipnat no longer probes ${text} because of its connections`);
  }

  /** One cause often affects several apiservers: the first is logged as a warning, and the end once none is left. */
  #reportUncorroborated({ endpoint }: EndpointHealth, { reason }: UnconfirmedFailure): void {
    const name = formatEndpoint(endpoint);
    this.#logger[this.#uncorroborated.size === 0 ? 'warn' : 'debug'](
      `${name} is suspected: ${reason}. The apiserver stays in use`,
    );
    this.#uncorroborated.add(name);
  }

  #reportCleared({ endpoint, state }: EndpointHealth): void {
    const name = formatEndpoint(endpoint);
    this.#uncorroborated.delete(name);
    if (state !== 'ready') return;
    this.#logger[this.#uncorroborated.size === 0 ? 'info' : 'debug'](
      `${name} is no longer suspected: it answers again`,
    );
  }

  /** Once: a cluster has it for all of its apiservers, and for good. */
  #reportLiveness({ endpoint, history }: EndpointHealth): void {
    if (this.#isLivenessReported) return;
    this.#isLivenessReported = true;
    this.#logger.warn(
      `${formatEndpoint(endpoint)}: ${String(history.livenessOnly)}. So vipnat sees whether apiservers live, and not whether they are ready (--kubeconfig names credentials)`,
    );
  }

  /** A refused connect mostly follows within milliseconds: then the death says it all. */
  #reportEnd(name: string, state: EndpointHealth['state']): void {
    const line = this.#endpointToEnd.get(name);
    this.#endpointToEnd.delete(name);
    if (line !== undefined && state !== 'dead') this.#reportFall('draining', line);
  }

  #reportFall(state: 'dead' | 'draining', line: string): void {
    this.#logger.info(line);
    this.#events.record(fallToReason[state], line);
  }

  #reportState(before: EndpointHealth, { endpoint, state, reason, since, isDrained }: EndpointHealth): void {
    const name = formatEndpoint(endpoint);
    const fellAt = this.#endpointToFall.get(name);
    if (before.state === 'ready') this.#endpointToFall.set(name, since);
    this.#reportEnd(name, state);
    if (state === 'ready') {
      this.#endpointToFall.delete(name);
      const age = fellAt === undefined ? '' : ` again after ${formatAge(since - fellAt)}`;
      const line = `${name} is ready${age} (${reason})`;
      this.#logger.info(line);
      this.#events.record('ApiserverReady', line);
      return;
    }
    const line = `${name} is ${state}: ${reason}`;
    if (reason === endVerdict.reason) {
      this.#endpointToEnd.set(name, line);
      return;
    }
    // The host of one that was dead may be drained still, after its reboot.
    if (state === 'warming' || (before.state !== 'ready' && state === 'draining' && !isDrained)) {
      this.#logger.debug(line);
      return;
    }
    this.#reportFall(state, line);
  }
}

const fallToReason = { dead: 'ApiserverDead', draining: 'ApiserverDraining' } as const;

/** A rule conflict is over after so long without a repair. */
const peaceMs = 60_000;

interface ConflictPorts {
  readonly logger: Logger;
  readonly clock: Clock;
  readonly events: EventRecorder;
}

/** A conflict with another program that undoes what vipnat does, as the log reports it: one error line until it is over (I9). */
class RuleConflict {
  readonly #ports: ConflictPorts;
  isOn = false;
  #lastRepair = 0;

  constructor(ports: ConflictPorts) {
    this.#ports = ports;
  }

  noteRepair(): void {
    this.#lastRepair = this.#ports.clock.now();
  }

  /** To be called when a repair is postponed, as there were too many. Says what happened and what comes next, once in a conflict. */
  goOn(what: string, next: string, fields: LogFields = {}): void {
    this.noteRepair();
    if (this.isOn) return;
    this.isOn = true;
    this.#ports.logger.error(`${what}. ${next}`, fields);
    this.#ports.events.record('RuleConflict', what);
  }

  /** To be called when nothing needs a repair. */
  endAfterPeace(): void {
    if (!this.isOn || this.#ports.clock.now() - this.#lastRepair < peaceMs) return;
    const line = `no program has undone vipnat's rules for ${peaceMs / 1000} s`;
    this.#ports.logger.info(line);
    this.#ports.events.record('RulesUncontested', line);
    this.isOn = false;
  }
}

interface Pending {
  readonly assessment: Assessment;
  readonly since: number;
  readonly drift: readonly string[];
  readonly isRepair: boolean;
  readonly causes: readonly Cause[];
  readonly tookMs: number | null;
}

/**
 * What the loop has to say, as log lines: one for each change, with its cause and reason, one for each kind of
 * trouble however long it lasts, and nothing while in sync (I7). What concerns an administrator becomes a Kubernetes event, too.
 */
export class LoopLog implements Omit<LoopObserver, 'triggered'> {
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #events: EventRecorder;
  readonly #vipToState = new Map<string, string>();
  readonly #vipToHeld = new Map<string, boolean>();
  #pending: Pending | null = null;
  /** What rules were last written for, or found in sync with. */
  #wanted = '';
  readonly #ruleConflict: RuleConflict;
  readonly #subjectToProblem = new Map<'flows' | 'local clients', string>();
  #forwardingProblem = '';
  #unread = '';
  #isListeningRead = true;
  readonly #refused = new Set<string>();
  #failure: { readonly text: string; readonly since: number } | null = null;

  constructor(logger: Logger, clock: Clock, events: EventRecorder) {
    this.#logger = logger;
    this.#clock = clock;
    this.#events = events;
    this.#ruleConflict = new RuleConflict({ logger, clock, events });
  }

  /** Whether somebody keeps undoing vipnat's rules, or switching forwarding off. */
  get hasRuleConflict(): boolean {
    return this.#ruleConflict.isOn;
  }

  synced({ refused, observation }: Pick<Assessment, 'refused' | 'observation'>): void {
    for (const sentence of refused) {
      // Each is said once.
      if (this.#refused.has(sentence)) continue;
      this.#refused.add(sentence);
      this.#logger.warn(sentence);
    }
    this.#reportUnread(observation.unread);
  }

  drift(assessment: Assessment, causes: readonly Cause[]): void {
    const drifts = assessment.plan.tables.flatMap((table) => table.drift);
    const wanted = describeWanted(assessment);
    // What was written for other decisions is nobody's interference, also when these turn back before the next sync.
    const isAsBefore = wanted === this.#wanted;
    this.#wanted = wanted;
    // A write that the next decision replaces before a sync verifies it was a change, too.
    if (!isAsBefore && this.#pending?.tookMs != null) this.#reportChange(this.#pending.assessment);
    this.#pending = {
      since: this.#clock.now(),
      drift: describeDrift(assessment.plan),
      isRepair: isAsBefore && drifts.some((drift) => !isOutdated(drift)),
      causes,
      tookMs: null,
      ...this.#pending,
      assessment,
    };
  }

  /** The line is logged after the sync that verifies the write, or before one for another decision. */
  written(): void {
    if (this.#pending === null) return;
    this.#pending = { ...this.#pending, tookMs: this.#clock.now() - this.#pending.since };
  }

  inSync(assessment: Assessment): void {
    this.#endFailure();
    this.#wanted = describeWanted(assessment);
    this.#reportChange(assessment);
    this.#reportVipHolder(assessment);
    this.#ruleConflict.endAfterPeace();
  }

  /** One error line until it is over. */
  ruleConflict(plan: Plan, paceMs: number): void {
    const [first = "vipnat's rules change"] = describeDrift(plan);
    this.#ruleConflict.goOn(
      `another program keeps undoing vipnat's rules: ${first}`,
      `vipnat now repairs them only every ${paceMs / 1000} s. Find the other program that writes them`,
      { drift: describeDrift(plan) },
    );
  }

  /** Said once while it stays the same. */
  failure(error: unknown, retryMs: number): void {
    const text = error instanceof Error ? error.message : String(error);
    if (this.#failure?.text === text) return;
    this.#failure = { text, since: this.#failure?.since ?? this.#clock.now() };
    const details =
      error instanceof VipnatError && error.details !== undefined ? { details: error.details } : {};
    this.#logger.error(`${text}. The last good rules stay. vipnat tries again in ${Math.ceil(retryMs)} ms`, {
      code: findErrorCode(error),
      ...details,
    });
    this.#events.record('AgentFailing', text);
  }

  flowsReset(vip: Endpoint, backend: Endpoint, count: number): void {
    this.#logger.info(
      `vipnat reset ${count} stale connection${count === 1 ? '' : 's'} of ${formatEndpoint(vip)} to ${formatEndpoint(backend)}`,
    );
  }

  flowsNotReset(error: unknown): void {
    this.#warn('flows', error, 'Stale connections last until the next try, or until their clients time out');
  }

  switchedOn({ name, advertised }: MissingSwitch): void {
    this.#forwardingProblem = '';
    this.#ruleConflict.noteRepair();
    if (this.#ruleConflict.isOn) return;
    this.#logger.warn(`vipnat set ${name} from 0 to 1, because balancing needs IP forwarding`);
    if (advertised.length === 0) return;
    this.#logger.warn(
      `vipnat set accept_ra of ${advertised.join(', ')} to 2, so that this host still obeys router advertisements`,
    );
  }

  /** One error line until it is over. */
  conflict({ name }: MissingSwitch, waitMs: number): void {
    this.#ruleConflict.goOn(
      `another program keeps setting ${name} to 0`,
      `vipnat sets it to 1 again in ${Math.ceil(waitMs / 1000)} s. Until then only the VIP holder's own apiserver answers. Find the program that sets it to 0`,
    );
  }

  notSwitched({ message, code }: VipnatError): void {
    if (this.#forwardingProblem === message) return;
    this.#forwardingProblem = message;
    this.#logger.error(message, { code });
  }

  changed(isServing: boolean): void {
    const line = isServing
      ? 'this node can serve the VIP again. The track file is 0, so keepalived may take the VIP'
      : 'this node cannot serve the VIP: it cannot balance, and its own apiserver does not answer. The track file is 1, so keepalived keeps the VIP off this node';
    this.#logger[isServing ? 'info' : 'warn'](line);
    this.#events.record(isServing ? 'CanServe' : 'CannotServe', line);
  }

  notWritten({ message, code }: VipnatError): void {
    this.#logger.warn(message, { code });
  }

  guardChanged(cause: string | null): void {
    if (cause === null) this.#logger.info('keepalived follows the track file again');
    else this.#logger.warn(`keepalived does not follow the track file: ${cause}. The VIP stays where it is`);
  }

  sourceRouteChanged({ kind, route: { address, source }, reason }: RouteChange): void {
    const what =
      kind === 'add'
        ? `local clients now connect to ${address} from ${source}`
        : `vipnat removed the local route of ${address} with the source ${source}`;
    this.#logger.info(`${what}: ${reason}`);
  }

  ownConnectionsEnded(vip: Endpoint, count: number): void {
    const connections = `${count} stale connection${count === 1 ? '' : 's'} of local clients`;
    this.#logger.info(`${vip.address} left this node: vipnat ended ${connections} to ${formatEndpoint(vip)}`);
  }

  localClientsKept(): void {
    this.#subjectToProblem.delete('local clients');
  }

  localClientsNotKept(error: unknown): void {
    this.#warn('local clients', error, 'Connections of local clients may hang when a VIP leaves this node');
  }

  /** Said once while it stays the same. */
  #warn(subject: 'flows' | 'local clients', error: unknown, next: string): void {
    const text = error instanceof Error ? error.message : String(error);
    if (this.#subjectToProblem.get(subject) === text) return;
    this.#subjectToProblem.set(subject, text);
    this.#logger.warn(`${text}. ${next}`, { code: findErrorCode(error) });
  }

  /** Said once while it cannot be known. */
  listeningRead(isRead: boolean): void {
    const isNews = !isRead && this.#isListeningRead;
    this.#isListeningRead = isRead;
    if (!isNews) return;
    this.#logger.warn(
      "vipnat cannot read the listening ports (/proc/net/tcp). It assumes that a process listens on the VIP's port",
    );
  }

  /** What of the rules cannot be read, in one line whenever that changes. */
  #reportUnread(unread: readonly UnreadRules[]): void {
    const found = describeUnread(unread);
    const text = found.map((one) => one.text).join(' ');
    if (text === this.#unread) return;
    this.#unread = text;
    const [first] = found;
    if (first === undefined) this.#logger.info('vipnat can read all rules again');
    else this.#logger.warn(text, { code: first.code });
  }

  #endFailure(): void {
    if (this.#failure === null) return;
    this.#logger.info(`vipnat works again after ${formatDuration(this.#clock.now() - this.#failure.since)}`);
    this.#failure = null;
    this.#events.record('AgentRecovered', 'vipnat works again');
  }

  /** Modes that are new, or else the rules that were written. */
  #reportChange(assessment: Assessment): void {
    const hasNewMode = this.#reportModes(assessment);
    if (this.#pending !== null && !hasNewMode) this.#reportRepair(this.#pending);
    this.#pending = null;
  }

  /** Answers whether any VIP has another balancing mode than before. */
  #reportModes({ decisions }: Assessment): boolean {
    let hasNewMode = false;
    for (const decision of decisions) {
      const vip = formatEndpoint(decision.vip);
      const state = describeMode(decision);
      const before = this.#vipToState.get(vip);
      if (before === state) continue;
      hasNewMode = true;
      this.#vipToState.set(vip, state);
      const took = this.#pending === null ? '' : ` (${this.#timeTaken(this.#pending)})`;
      const line = `${vip} ${describeChange(before, state)}: ${decision.reason}`;
      this.#logger[isBalanced(decision) ? 'info' : 'warn'](`${line}${took}`);
      this.#events.record(chooseReason(decision), line);
    }
    return hasNewMode;
  }

  #reportVipHolder({ observation, decisions }: Assessment): void {
    for (const { vip } of decisions) {
      const isHeld = observation.addresses.some(({ address }) => address === vip.address);
      const before = this.#vipToHeld.get(vip.address);
      this.#vipToHeld.set(vip.address, isHeld);
      if (before === isHeld || (before === undefined && !isHeld)) continue;
      this.#logger.info(`this node ${isHeld ? 'holds' : 'no longer holds'} ${vip.address}`);
    }
  }

  #reportRepair(pending: Pending): void {
    const { drift, isRepair, causes } = pending;
    if (isRepair) this.#ruleConflict.noteRepair();
    const [first = 'rules', ...more] = drift;
    const rest = more.length === 0 ? '' : ` and ${more.length} more`;
    const what = `vipnat ${isRepair ? 'repaired' : 'updated'} its rules: ${first}${rest}`;
    this.#logger[isRepair ? 'warn' : 'info'](`${what} (${this.#timeTaken(pending)})`, { drift, causes });
    if (isRepair) this.#events.record('RulesRepaired', what);
  }

  #timeTaken({ since, tookMs }: Pending): string {
    return `took ${formatDuration(tookMs ?? this.#clock.now() - since)}`;
  }
}

/** `starts in mode direct to …`, `changes mode, service-chain -> direct to …`, `changes apiservers, now direct to …`. */
function describeChange(before: string | undefined, state: string): string {
  if (before === undefined) return `starts in mode ${state}`;
  const [oldMode, newMode] = [before, state].map((text) => text.split(' ')[0]);
  return oldMode === newMode ? `changes apiservers, now ${state}` : `changes mode, ${oldMode} -> ${state}`;
}

/** A mode that is not the one for healthy hosts is a warning. */
function chooseReason(decision: Decision): EventReason {
  if (!isBalanced(decision)) return 'NotBalanced';
  return decision.isBypass ? 'Bypassing' : 'ModeChosen';
}

/** `180 ms`, `16 s`. */
function formatDuration(ms: number): string {
  return ms < 10_000 ? `${Math.round(ms)} ms` : `${Math.round(ms / 1000)} s`;
}
