/**
 * What checks mean on a host on which no agent has run yet.
 *
 * Goal: what is only not there yet alarms nobody, and what serves the API today is not called wrong.
 * Tension: the same finding can be a real fault there, as a VIP that kubeconfigs name and nobody holds.
 * Compromise: each code has the condition under which it is only a step that is still to come; all else stays as it is.
 */
import { type Outcome, type TopicOutcome } from '../checks/diagnose.ts';
import { isKeepalivedHere } from '../facts/held.ts';
import { filePaths, type HostFacts } from '../facts/host-facts.ts';
import { hasApiserver, isHeldByKeepalived, isInUse } from './stage.ts';

/** Whether it holds of a host. */
type Condition = (facts: HostFacts) => boolean;

/** Tells what is not there yet as pending, and what serves the API today as a warning at most. Pure. */
export function foresee(topics: readonly TopicOutcome[], facts: HostFacts): TopicOutcome[] {
  return topics.map(({ name, outcomes }) => ({
    name,
    outcomes: outcomes.map((outcome) => foreseeOne(outcome, facts)),
  }));
}

function foreseeOne(outcome: Outcome, facts: HostFacts): Outcome {
  const { code } = outcome;
  if (outcome.level === 'ok') return outcome;
  if (outcome.level === 'skipped')
    return isMet(notToBeSeen, code, facts) ? { ...outcome, pending: true } : outcome;
  if (isMet(notThere, code, facts)) return { code, level: 'skipped', reason: outcome.title, pending: true };
  return isMet(harmless, code, facts) ? { ...outcome, level: 'warn' } : outcome;
}

function isMet(codeToCondition: ReadonlyMap<string, Condition>, code: string, facts: HostFacts): boolean {
  return codeToCondition.get(code)?.(facts) ?? false;
}

const always = () => true;

/** Findings that a step of the installation takes away. */
const notThere = new Map<string, Condition>([
  ['forwarding-off', always],
  ['forward-dropped', always],
  ['vip-nowhere', (facts) => !isHeldByKeepalived(facts) && !isInUse(facts.config.vips, facts)],
  ['keepalived-not-running', hasNoConfiguration],
  ['keepalived-untracked', always],
  ['no-apiserver-known', (facts) => !hasApiserver(facts)],
  ['agent-not-running', always],
]);

/** Failures beside an agent: without one they are how the API is served, or what nobody comes by yet. */
const harmless = new Map<string, Condition>([
  ['no-apiserver-known', always],
  ['certificate-lacks-vip', (facts) => !isInUse(facts.config.vips, facts)],
  ['foreign-dnat', always],
  ['foreign-listener', always],
]);

const lacksApiserver: Condition = (facts) =>
  'value' in facts.assessment && facts.assessment.value.health.size === 0 && !hasApiserver(facts);
const lacksKeepalived: Condition = ({ processes }) =>
  'value' in processes && !isKeepalivedHere(processes.value);
const lacksTrackFile: Condition = ({ processes, trackFile }) => 'value' in processes && 'value' in trackFile;

/** Checks that have nothing to look at before that. */
const notToBeSeen = new Map<string, Condition>([
  ['keepalived-lacks-vip', lacksKeepalived],
  ['keepalived-untracked', lacksKeepalived],
  ['track-file-dropped', lacksTrackFile],
  ['track-file-stale', lacksTrackFile],
  ['apiserver-down', lacksApiserver],
  ['liveness-only', lacksApiserver],
  ['certificate-lacks-vip', lacksApiserver],
  ['certificate-expires', lacksApiserver],
  ['clock-off', lacksApiserver],
  [
    'no-shutdown-delay',
    (facts) => 'value' in facts.processes && isAbsent(facts, [filePaths.apiserverManifest]),
  ],
  ['kubeconfig-at-vip', hasNoKubeconfig],
  ['kubeconfig-past-vip', hasNoKubeconfig],
  ['rules-differ', ({ assessment }) => 'value' in assessment],
]);

function hasNoConfiguration({ keepalived }: HostFacts): boolean {
  return 'value' in keepalived && keepalived.value.text === null;
}

function hasNoKubeconfig(facts: HostFacts): boolean {
  const { controllerManager, scheduler, kubelet, admin, superAdmin } = filePaths;
  return isAbsent(facts, [controllerManager, scheduler, kubelet, admin, superAdmin]);
}

function isAbsent({ files }: HostFacts, paths: readonly string[]): boolean {
  return paths.every((path) => {
    const text = files.get(path);
    return text !== undefined && 'value' in text && text.value === null;
  });
}
