import { toPrintableJson } from '../../../lib/text/printable.ts';
import { type TopicOutcome } from '../../doctor/checks/diagnose.ts';
import { countOutcomes } from '../screens/doctor.ts';

/** `doctor --json`, version 1: every check with its topic, code and level, findings first told as people are told. Ends with a newline. */
export function formatDoctorJson(topics: readonly TopicOutcome[], node: string): string {
  const checks = topics.flatMap(({ name, outcomes }) =>
    outcomes.map((outcome) => ({ topic: name, ...outcome })),
  );
  return `${toPrintableJson({ version: 1, node, ...countOutcomes(topics), checks }, 2)}\n`;
}
