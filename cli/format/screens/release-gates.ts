import { gatesPolicy, webhookName } from '../../../lib/services/names.ts';
import { listClosedGates, type Opening, toOpeningWrite } from '../../../lib/services/pod-gates.ts';
import { type Pod } from '../../../lib/services/pods.ts';
import { toPrintableJson } from '../../../lib/text/printable.ts';
import { quoteWords } from '../../../lib/text/shell-words.ts';
import { type Release } from '../../services/release-gates.ts';

/** What `vipnat services release-gates` has found. */
export interface ReleasePlan {
  /** Those with a gate that is not open. */
  readonly pods: readonly Pod[];
  readonly types: ReadonlySet<string>;
  readonly opening: Opening;
  /** The controller that leads; null where none is known. */
  readonly leader: string | null;
  /** Whether the policy is there that gives new pods the gate. */
  readonly policy: 'there' | 'gone' | 'unknown';
  /** The same of the webhook. */
  readonly webhook: 'there' | 'gone' | 'unknown';
}

/** What it would write, as commands for people, and what they should know. Each ends with a newline. */
export function formatReleasePlan(plan: ReleasePlan): { readonly stdout: string; readonly stderr: string } {
  const { pods } = plan;
  const notes = listNotes(plan);
  if (pods.length === 0) return { stdout: '', stderr: toLines([none, ...notes]) };
  const commands = pods.map((pod) => toCommand(pod, plan));
  const many = `${nameCount(pods.length)} wait${pods.length === 1 ? 's' : ''}`;
  const next = `${many} for a gate of vipnat. To open the gates, add --yes`;
  return {
    stdout: toLines(['# release-gates would do this. Nothing was done.', '', ...commands]),
    stderr: toLines([next, ...notes]),
  };
}

/** What has become of them. Ends with a newline. */
export function formatReleased(releases: readonly Release[], plan: ReleasePlan): string {
  const left = releases.filter(({ outcome }) => outcome === 'left').map(({ pod }) => pod);
  const count = (wanted: Release['outcome']) => releases.filter(({ outcome }) => outcome === wanted).length;
  const [open, gone] = [count('open'), count('gone')];
  const summary = [
    `opened the gates of ${nameCount(count('opened'))}`,
    ...(open === 0 ? [] : [`${nameCount(open)} had no closed gate by then`]),
    ...(gone === 0 ? [] : [`${nameCount(gone)} went meanwhile`]),
  ].join(', ');
  const words = `the gates of ${nameCount(left.length)} are not open: ${left.join(', ')}. To try again, repeat the command`;
  return toLines([
    releases.length === 0 ? none : summary,
    ...(left.length === 0 ? [] : [words]),
    ...listNotes(plan),
  ]);
}

/** `vipnat services release-gates --json`, version 1: fields are added, never renamed. Ends with a newline. */
export function formatReleaseJson(plan: ReleasePlan, releases: readonly Release[] | null): string {
  const { pods, types, leader, policy, webhook } = plan;
  const waiting = pods.map((pod) => {
    const { namespace, name } = pod.metadata;
    return { pod: `${namespace}/${name}`, gates: listClosedGates(pod, types), outcome: 'waiting', why: null };
  });
  const document = {
    ...{ version: 1, dryRun: releases === null, pods: releases ?? waiting },
    ...{ controller: leader, policy, webhook },
  };
  return `${toPrintableJson(document, 2)}\n`;
}

function toCommand(pod: Pod, { types, opening }: ReleasePlan): string {
  const { namespace, name } = pod.metadata;
  const { body } = toOpeningWrite(pod, listClosedGates(pod, types), opening);
  const where = ['kubectl', 'patch', 'pod', name, '--namespace', namespace, '--subresource', 'status'];
  return quoteWords([...where, '--patch', JSON.stringify(body)]);
}

function listNotes({ pods, leader, policy, webhook }: ReleasePlan): string[] {
  return [
    ...(policy === 'there'
      ? [
          `the policy ${gatesPolicy} still gives new pods the gate, and they wait too. To delete it: kubectl delete mutatingadmissionpolicybinding,mutatingadmissionpolicy ${gatesPolicy}`,
        ]
      : []),
    ...(webhook === 'there'
      ? [
          `the webhook ${webhookName} still gives new pods the gate, and they wait too. To delete it: kubectl delete mutatingwebhookconfiguration ${webhookName}`,
        ]
      : []),
    ...(policy === 'unknown' || webhook === 'unknown'
      ? ['the API does not say whether a policy or a webhook of vipnat still gives new pods the gate']
      : []),
    ...(pods.length === 0
      ? []
      : [
          'new pods wait too, while spec.template.spec.readinessGates of their Deployment names the gate. Remove it there first',
        ]),
    ...(leader === null || pods.length === 0
      ? []
      : [
          `${leader} leads, and opens gates itself. A gate that opens early costs connections of a rolling update`,
        ]),
  ];
}

const none = 'no pod waits for a gate of vipnat';

function nameCount(count: number): string {
  return count === 1 ? '1 pod' : `${count} pods`;
}

function toLines(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join('');
}
