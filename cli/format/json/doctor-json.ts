import { toPrintableJson } from '../../../lib/text/printable.ts';
import { type Examination } from '../../doctor/stage/examine.ts';
import { countOutcomes } from '../screens/doctor.ts';

/**
 * `doctor --json`, version 1: every check with its topic, code and level, findings first told as people are told, and what to
 * do next. `pending` counts those of `skipped` whose subject is only not there yet. Ends with a newline.
 */
export function formatDoctorJson({ stage, topics, next }: Examination, node: string): string {
  const checks = topics.flatMap(({ name, outcomes }) =>
    outcomes.map((outcome) => ({ topic: name, ...outcome })),
  );
  return `${toPrintableJson({ version: 1, node, stage, ...countOutcomes(topics), checks, next }, 2)}\n`;
}
